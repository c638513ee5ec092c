#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// The latents that `moh sample --latents FILE.npz` draws, each of a given shape [C, H, W], until the file is
/// written. With a folder they lie there, a file for each, and one that is there is not drawn again; without
/// one they stay in memory.
class SampledLatents {
 public:
  SampledLatents(std::filesystem::path folder, std::int64_t count, Shape shape);

  /// Whether latents `number` are in the folder.
  bool has(std::int64_t number) const;
  /// Throws StorageError.
  void add(std::int64_t number, const Tensor& latents);
  /// Writes all of them, which must have been added or be in the folder, as the array `arr_0`, float32
  /// [N, C, H, W], with their `labels`, int64 [N], and the `seed`, int64 and a single number, with which
  /// their numbers 0 to N - 1 make them. Throws StorageError, and DataError for a file of the folder that is
  /// something else.
  void write(const std::filesystem::path& file, std::span<const std::int64_t> labels,
             std::uint64_t seed) const;

 private:
  std::filesystem::path path_of(std::int64_t number) const;
  std::vector<float> values_of(std::int64_t number) const;

  std::filesystem::path folder_;
  std::int64_t count_;
  Shape shape_;
  std::vector<Tensor> in_memory_;
};

}  // namespace moh
