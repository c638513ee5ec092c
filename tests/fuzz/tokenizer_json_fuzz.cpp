#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/tokenizers/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const auto tokenizer = moh::read_tokenizer_json(memory.path());
    std::vector<moh::TokenId> ids;
    tokenizer->encode("Two heads, 2 of 12:\n they're \xe5\xa4\x9a\xff <|endoftext|>  pad", ids);
    for (const moh::TokenId id : ids) tokenizer->token_bytes(id);
  } catch (const moh::DataError&) {
  }
  return 0;
}
