#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/formats/tensorflow/frozen_graph.h"

/// Whatever the bytes are: the elements of every constant that is listed can be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const moh::FrozenGraph graph(memory.path());
    for (const moh::WeightInfo& info : graph.tensors()) {
      if (info.bytes != static_cast<std::uint64_t>(info.shape.numel()) * sizeof(float)) __builtin_trap();
      std::vector<std::byte> bytes(std::min<std::uint64_t>(info.bytes, 1 << 12));
      graph.read(info, info.bytes - bytes.size(), bytes);
      graph.norm(info.name);
    }
  } catch (const moh::CheckpointError&) {
  }
  return 0;
}
