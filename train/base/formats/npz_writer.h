#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/io/durable_file.h"

namespace moh {

/// An array of an .npz file that is to be written.
struct NpzArray {
  enum class Type { kUint8, kInt64, kFloat32, kFloat64, kText };

  std::string name;                 ///< without ".npy"
  std::vector<std::int64_t> shape;  ///< extents of 1 or more; empty for a single number
  Type type = Type::kFloat32;
  std::int64_t characters = 0;  ///< of kText, NumPy's "<U": at most as many in each element, 1 or more

  std::uint64_t bytes() const;
};

/// An .npz file (C order), stored without compression, as NumPy writes and the evaluator of guided-diffusion
/// reads it. Each array is written as it comes, whatever has been written of the others; sizes are those of
/// Zip64, as they pass 4 GiB with 50,000 pictures of 256 pixels. Throws StorageError.
class NpzWriter {
 public:
  NpzWriter(const std::filesystem::path& path, const std::vector<NpzArray>& arrays);

  /// Appends elements to array number `array`, not more than its shape has.
  void write(std::size_t array, std::span<const std::uint8_t> elements) {
    write_bytes(array, std::as_bytes(elements));
  }
  void write(std::size_t array, std::span<const std::int64_t> elements) {
    write_bytes(array, std::as_bytes(elements));
  }
  void write(std::size_t array, std::span<const float> elements) {
    write_bytes(array, std::as_bytes(elements));
  }
  void write(std::size_t array, std::span<const double> elements) {
    write_bytes(array, std::as_bytes(elements));
  }
  /// An element of an array of texts, in UTF-8: what is no UTF-8 is replaced, what is too long is cut.
  void write(std::size_t array, std::string_view text);
  /// Publishes the file, which must be complete.
  void commit();

 private:
  /// An array in the file.
  struct Entry {
    std::string name, header;              ///< "NAME.npy", and the header of that file
    std::uint64_t begin = 0;               ///< of its local header
    std::uint64_t bytes = 0, written = 0;  ///< of the elements
    std::uint32_t crc = 0;
    std::int64_t characters = 0;

    std::uint64_t size() const { return header.size() + bytes; }
    std::uint64_t data_begin() const;  ///< of the elements
    std::uint64_t end() const { return data_begin() + bytes; }
    std::string description(std::uint64_t extra_bytes) const;
    std::string local_header() const;
    std::string directory_entry() const;
  };

  static std::vector<Entry> laid_out(const std::vector<NpzArray>& arrays);
  void write_bytes(std::size_t array, std::span<const std::byte> bytes);
  std::string directory() const;

  std::vector<Entry> entries_;
  DurableFile file_;
};

}  // namespace moh
