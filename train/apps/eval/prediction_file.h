#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/base/formats/npz_writer.h"
#include "train/trainer/task/predictor.h"

namespace moh {

/// The file of `moh predict --out`: `files` [N], texts, and the arrays that a Predictor makes of each,
/// float32 [N, ...], under their names. It is written file by file, whatever their number.
class PredictionFile {
 public:
  /// `each` are the arrays of one file (Predictor::arrays). Throws StorageError.
  PredictionFile(const std::filesystem::path& path, std::span<const std::string> files,
                 std::span<const PredictedArray> each);

  /// The row of the next file; empty where it could not be read: NaN. Throws StorageError.
  void add(std::span<const PredictedArray> arrays);
  /// Publishes the file, which has all rows. Throws StorageError.
  void commit() { npz_.commit(); }

 private:
  std::vector<std::int64_t> elements_;  ///< of a row of each array
  NpzWriter npz_;
};

}  // namespace moh
