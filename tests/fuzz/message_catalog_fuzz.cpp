#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/io/printable.h"
#include "train/families/translation/data/message_catalog.h"

/// The pairs of a message catalog: text, of at most four bytes for each of the file's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    moh::DroppedPairs dropped;
    std::size_t bytes = 0;
    for (const moh::TextPair& pair : moh::read_message_catalog(memory.path(), dropped)) {
      bytes += pair.source.size() + pair.target.size();
      if (!moh::is_utf8(pair.source) || !moh::is_utf8(pair.target)) __builtin_trap();
    }
    if (bytes > 8 * size || dropped.count() > static_cast<std::int64_t>(size)) __builtin_trap();
  } catch (const moh::DataError&) {
  }
  return 0;
}
