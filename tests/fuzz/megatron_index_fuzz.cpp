#include <algorithm>
#include <vector>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/tasks/language/data/megatron_tokens.h"
#include "train/tasks/language/data/separated_tokens.h"

namespace {

constexpr moh::TokenId kSeparator = 7;

/// Reads the last ids with a separator between documents, of an index that can be right about any .bin.
void read_separated(const moh::MegatronIndex& index) {
  const std::vector<std::int64_t> inner(index.ends.begin(), index.ends.end() - 1);
  const auto separated =
      moh::separate_tokens(moh::random_tokens(index.num_tokens, kSeparator, /*seed=*/1), inner, kSeparator);
  std::vector<moh::TokenId> ids(static_cast<std::size_t>(std::min<std::int64_t>(separated->size(), 1 << 12)));
  separated->copy(separated->size() - std::ssize(ids), ids);
  const auto last = std::ranges::count_if(
      inner, [&](std::int64_t end) { return index.num_tokens - end < std::ssize(ids); });
  if (std::ranges::count(ids, kSeparator) > last) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::MegatronIndex index =
        moh::read_megatron_index(moh::InputFile(memory.path(), moh::InputKind::kData));
    if (index.ends.empty() || index.ends.front() <= 0 || index.ends.back() != index.num_tokens)
      __builtin_trap();
    if (std::ranges::adjacent_find(index.ends, std::ranges::greater_equal()) != index.ends.end())
      __builtin_trap();
    read_separated(index);
  } catch (const moh::DataError&) {
  }
  return 0;
}
