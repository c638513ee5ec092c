#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/tasks/language/data/foreign_tokens.h"

namespace {

constexpr std::int64_t kVocabSize = 50257;

void read(const std::string& path, moh::ForeignTokens kind, const char* bin_dtype) {
  try {
    const moh::ForeignTokenFile file =
        moh::open_foreign_tokens({path, true}, kind, bin_dtype, "fuzz", kVocabSize, std::nullopt);
    const std::int64_t size = file.documents->size();
    std::vector<moh::TokenId> ids(static_cast<std::size_t>(std::min<std::int64_t>(size, 1 << 16)));
    file.documents->copy(size - std::ssize(ids), ids);
    if (!std::ranges::all_of(ids, [](moh::TokenId id) { return id >= 0 && id < kVocabSize; }))
      __builtin_trap();
  } catch (const moh::DataError&) {
  }
}

}  // namespace

/// Whatever the bytes are, as each kind of file: NumPy's, llm.c's, and ids alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  moh::foreign_tokens_kind({memory.path(), true}, moh::kNoBinDtype);
  read(memory.path(), moh::ForeignTokens::kNumpy, moh::kNoBinDtype);
  read(memory.path(), moh::ForeignTokens::kLlmC, moh::kNoBinDtype);
  read(memory.path(), moh::ForeignTokens::kRaw, "uint16");
  read(memory.path(), moh::ForeignTokens::kRaw, "uint32");
  return 0;
}
