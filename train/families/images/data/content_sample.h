#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"

namespace moh {

/// A checksum of what some pictures contain, at next to no cost: of each the size, and its first and last
/// 4096 bytes. It tells a data set from one in which files were exchanged.
class ContentSample {
 public:
  /// Pictures that are sampled of a data set.
  static constexpr std::int64_t kPictures = 512;

  /// Adds `size` bytes from `begin` on.
  void add(const InputFile& file, std::uint64_t begin, std::uint64_t size);
  /// Adds a file of its own. One that cannot be read counts as such.
  void add(const std::filesystem::path& file);
  /// Adds numbers.
  void add(const std::vector<std::int64_t>& numbers);

  std::string hex() const { return checksum_.hex(); }

 private:
  Checksum checksum_;
};

/// `count` of the numbers below `size`, or all of them, in an order that is a function of both.
std::vector<std::int64_t> sampled_indices(std::int64_t size, std::int64_t count);

/// Sizes of files in bytes, found by all threads; -1 for one that cannot be reached. `path(i)` is
/// thread-safe.
std::vector<std::int64_t> sizes_of_files(std::int64_t count,
                                         FunctionRef<std::filesystem::path(std::int64_t)> path);

}  // namespace moh
