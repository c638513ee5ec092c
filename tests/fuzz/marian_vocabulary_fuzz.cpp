#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/io/input_file.h"
#include "train/tokenizers/marian_vocabulary.h"

/// Its ids must be places of its tokens, which no text of a small file makes large.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const std::string text =
        moh::read_json_object(memory.path(), moh::InputKind::kData, std::uint64_t{1} << 20, 4);
    moh::looks_like_vocabulary(text);
    const moh::MarianVocabulary vocabulary = moh::parse_marian_vocabulary(text, memory.path());
    if (vocabulary.tokens.size() > 4 * size + (std::size_t{1} << 16) + 1) __builtin_trap();
    for (const auto& [token, id] : vocabulary.ids())
      if (vocabulary.tokens.at(static_cast<std::size_t>(id)) != token) __builtin_trap();
  } catch (const moh::DataError&) {
  }
  return 0;
}
