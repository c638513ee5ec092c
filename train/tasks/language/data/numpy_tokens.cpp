#include "train/tasks/language/data/numpy_tokens.h"

#include <string>

#include "train/formats/numpy_file.h"
#include "train/formats/stored_dtype.h"
#include "train/io/printable.h"

namespace moh {

NumpyTokens read_numpy_tokens(const InputFile& file) {
  const NumpyArray array = read_numpy_header(file, 0, file.size());
  if (array.stored_dtype.empty() || array.stored_dtype.starts_with('F'))
    file.fail("header, descr", "integers in little-endian order, such as '<u2'", printable(array.descr));
  const std::size_t rank = array.shape.size();
  if (rank == 0 || rank > 2)
    file.fail("header, shape", "one dimension, or two", std::to_string(rank) + " dimensions");
  if (rank == 2 && array.fortran_order)
    file.fail("header, fortran_order", "False: rows one after the other", "another order");
  const std::uint64_t item = find_safetensors_dtype(array.stored_dtype)->bytes();
  if (array.elements() * item != array.bytes)  // neither wraps: elements() is at most 2^60
    file.fail("size", "the elements of its shape", std::to_string(array.bytes) + " bytes of elements");
  if (array.elements() == 0) file.fail("shape", "at least one id", "none");
  return {.stored_dtype = array.stored_dtype,
          .begin = array.begin,
          .count = static_cast<std::int64_t>(array.elements()),
          .rows = rank == 2 ? array.shape[0] : 1};
}

}  // namespace moh
