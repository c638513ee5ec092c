#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "core/tensor.h"
#include "train/families/images/data/picture_batch.h"

namespace moh {

struct ImageRun;

/// Reads JPEG and PNG files as pictures that a run's model sees in an evaluation.
class PictureReader {
 public:
  explicit PictureReader(const ImageRun& run);

  /// The pictures of N files, [N, side, side, 3] float32, normalised, on the CPU. Throws DataError naming a
  /// file that cannot be read or decoded.
  Tensor read(std::span<const std::filesystem::path> files) const;
  /// Pixels of a side of these pictures.
  std::int64_t side() const { return view_.crop; }

 private:
  EvaluationView view_;
  ChannelNormalizer normalizer_;
};

}  // namespace moh
