#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/formats/numpy_file.h"

/// Whatever the bytes are: what opens has its elements within the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::NumpyFile file(memory.path());
    for (const char* name : {"", "mu", "arr_0", "activations"}) {
      const moh::NumpyArray* array = file.find(name);
      if (array == nullptr) continue;
      if (array->begin > size || array->bytes > size - array->begin) __builtin_trap();
      std::vector<double> values(std::min<std::uint64_t>(array->elements(), 1 << 16));
      file.read(*array, array->elements() - values.size(), values);
      file.verify(name);
    }
  } catch (const moh::DataError&) {
  }
  return 0;
}
