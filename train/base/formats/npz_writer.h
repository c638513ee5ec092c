#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/base/io/durable_file.h"

namespace moh {

/// An .npz file of one array, `arr_0.npy` (uint8 or float32, C order), stored without compression, as NumPy
/// writes and the evaluator of guided-diffusion reads it. It is written as it comes; sizes are those of
/// Zip64, as they pass 4 GiB with 50,000 pictures of 256 pixels. Throws StorageError.
class NpzWriter {
 public:
  enum class Type { kUint8, kFloat32 };

  /// Every extent is 1 or more.
  NpzWriter(const std::filesystem::path& path, const std::vector<std::int64_t>& shape,
            Type type = Type::kUint8);

  /// Appends elements, not more than the shape has.
  void write(std::span<const std::uint8_t> elements) { write_bytes(std::as_bytes(elements)); }
  void write(std::span<const float> elements) { write_bytes(std::as_bytes(elements)); }
  /// Publishes the file, which must be complete.
  void commit();

 private:
  NpzWriter(const std::filesystem::path& path, std::string header, std::uint64_t bytes);
  void write_bytes(std::span<const std::byte> bytes);
  void append(std::string_view bytes);
  std::string local_header() const;
  std::string directory() const;

  std::string header_;          ///< of the .npy
  std::uint64_t bytes_, left_;  ///< of the elements
  std::uint32_t crc_ = 0;
  DurableFile file_;
};

}  // namespace moh
