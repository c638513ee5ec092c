#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/images/data/shard_index.h"

/// The index of an archive of 1 MiB whose state is "state".
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::ShardIndex index = moh::read_shard_index(memory.path(), 1 << 20, "state");
    for (std::size_t i = 0; i < index.offsets.size(); ++i) {
      if (index.offsets[i] < 0 || index.sizes[i] < 0 || index.offsets[i] + index.sizes[i] > 1 << 20)
        __builtin_trap();
    }
  } catch (const moh::DataError&) {
  }
  return 0;
}
