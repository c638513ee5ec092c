#include <algorithm>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/language/data/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const auto file = moh::TokenFile::open(memory.path());
    std::vector<moh::TokenId> ids(static_cast<std::size_t>(std::min<std::int64_t>(file->size(), 1 << 16)));
    file->copy(file->size() - static_cast<std::int64_t>(ids.size()), ids);
    describe(file->info());
  } catch (const moh::DataError&) {
  }
  return 0;
}
