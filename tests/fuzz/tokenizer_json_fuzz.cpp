#include "core/error.h"
#include "tests/fuzz/encode_sample.h"
#include "tests/fuzz/memory_file.h"
#include "train/tokenizers/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    moh::test::encode_sample(*moh::read_tokenizer_json(memory.path()));
  } catch (const moh::DataError&) {
  }
  return 0;
}
