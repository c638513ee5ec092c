#pragma once

#include <cstdint>
#include <string_view>

#include "train/io/input_file.h"

namespace moh {

/// Integers in a file of NumPy's format (`.npy`), in the order of the file.
struct NumpyTokens {
  std::string_view stored_dtype;  ///< as named in safetensors: "U16"
  std::uint64_t begin = 0;        ///< of the elements, in bytes
  std::int64_t count = 0;
  std::int64_t rows = 1;  ///< of an array of two dimensions
};

/// Reads the header: versions 1 to 3, integers of 1 to 8 bytes in little-endian order, one dimension, or two
/// in C order. Throws DataError for a damaged file, and naming what it has instead.
NumpyTokens read_numpy_tokens(const InputFile& file);

}  // namespace moh
