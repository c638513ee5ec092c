#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/io/durable_file.h"

namespace moh {

/// An .npz file of one array of bytes, `arr_0.npy` (uint8, C order), stored without compression, as NumPy
/// writes and the evaluator of guided-diffusion reads it. It is written as it comes; sizes are those of
/// Zip64, as they pass 4 GiB with 50,000 pictures of 256 pixels. Throws StorageError.
class NpzWriter {
 public:
  /// Every extent is 1 or more.
  NpzWriter(const std::filesystem::path& path, const std::vector<std::int64_t>& shape);

  /// Appends elements, not more than the shape has.
  void write(std::span<const std::uint8_t> elements);
  /// Publishes the file, which must be complete.
  void commit();

 private:
  NpzWriter(const std::filesystem::path& path, std::string header, std::uint64_t elements);
  void append(std::string_view bytes);
  std::string local_header() const;
  std::string directory() const;

  std::string header_;  ///< of the .npy
  std::uint64_t elements_, left_;
  std::uint32_t crc_ = 0;
  DurableFile file_;
};

}  // namespace moh
