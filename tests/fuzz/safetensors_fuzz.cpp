#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::SafetensorsFile file(memory.path());
    for (const moh::SafetensorsEntry& entry : file.entries()) {
      if (entry.dtype) file.tensor(entry);
    }
  } catch (const moh::DataError&) {
  }
  return 0;
}
