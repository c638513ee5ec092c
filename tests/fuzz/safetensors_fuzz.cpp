#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/formats/safetensors.h"
#include "train/base/formats/stored_dtype.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::SafetensorsFile file(memory.path());
    for (const moh::WeightInfo& tensor : file.tensors()) {
      if (moh::find_safetensors_dtype(tensor.stored_dtype)->loads_as) file.tensor(tensor);
    }
  } catch (const moh::DataError&) {
  }
  return 0;
}
