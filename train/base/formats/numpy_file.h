#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/io/input_file.h"

namespace moh {

/// An array in NumPy's format (.npy): what its header says, and where its elements lie in the file.
struct NumpyArray {
  std::string descr;                ///< as NumPy names the type: "<f4"
  std::string_view stored_dtype;    ///< as safetensors does: "F32"; empty for types that have no name there
  bool fortran_order = false;       ///< columns one after the other
  std::vector<std::int64_t> shape;  ///< empty for a single number
  std::uint64_t begin = 0;          ///< of the elements, in bytes from the beginning of the file
  std::uint64_t bytes = 0;          ///< from there on

  /// The product of the shape; nothing is multiplied beyond 2^60.
  std::uint64_t elements() const;
};

/// The arrays of an .npy file, whose name is empty, or of an .npz file that was saved without compression (by
/// numpy.savez), under their names. Files are untrusted: sizes are checked when it is opened, the CRC-32 of
/// an array of an .npz by verify(). Throws DataError naming the file and the array.
class NumpyFile {
 public:
  explicit NumpyFile(const std::filesystem::path& path);

  const InputFile& file() const { return file_; }
  bool is_archive() const { return is_archive_; }
  /// The array of that name, or nullptr.
  const NumpyArray* find(std::string_view name) const;
  /// All names, for messages.
  std::string names() const;

  /// Compares the elements with the archive's checksum. An .npy file has none.
  void verify(std::string_view name) const;
  /// Elements [first, first + to.size()) in the file's order, of a type that find_conversion() converts to
  /// F64.
  void read(const NumpyArray& array, std::uint64_t first, std::span<double> to) const;
  /// Reads bytes ("|u1").
  void read(const NumpyArray& array, std::uint64_t first, std::span<std::uint8_t> to) const;

 private:
  void add_entries(std::string_view first_bytes);
  void add(const std::string& name, std::uint64_t begin, std::uint64_t end);

  InputFile file_;
  bool is_archive_ = false;
  std::map<std::string, NumpyArray, std::less<>> arrays_;
};

}  // namespace moh
