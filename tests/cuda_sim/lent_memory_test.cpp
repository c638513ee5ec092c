// Memory that graphs need while they run, and other work between their launches.

#include <catch2/catch.hpp>

#include "core/cuda/backend.h"
#include "core/cuda/graph.h"
#include "core/cuda/queue.h"
#include "core/tensor.h"
#include "tests/ops/device_ways.h"

using namespace moh;

namespace {

constexpr std::int64_t kElements = 1 << 18;

Tensor filled(std::int64_t elements, double value) {
  return full({elements}, value, DType::kFloat32, test::open_gpu());
}

std::int64_t reserved() {
  return cuda::memory_stats().reserved_bytes;
}

double first_of(const Tensor& tensor) {
  return tensor.slice(0, 1).reshape({}).item();
}

}  // namespace

TEST_CASE("sim: other work between two launches of a graph has its memory", "[sim]") {
  const cuda::GraphMemory memory;
  cuda::Graph graph(memory);
  Tensor sum;
  {
    const cuda::PersistentMemoryScope persistent;
    sum = filled(1, 0);
  }
  const auto work = [&] { sum.add(filled(kElements, 2).slice(0, 1)); };
  graph.rehearse(work);
  graph.capture(work);
  const std::int64_t before = reserved();
  CHECK(memory.lend([&] {
    const Tensor other = filled(kElements, 9);
    CHECK(first_of(other) == 9);
    CHECK(reserved() == before);
  }));
  CHECK(memory.lend([&] {  // more than there is
    const Tensor large = filled(64 * kElements, 9);
    CHECK(reserved() > before);
  }));
  CHECK(reserved() == before);
  graph.launch();
  CHECK(first_of(sum) == 4);

  Tensor kept;
  CHECK_FALSE(memory.lend([&] { kept = filled(kElements, 9); }));
  CHECK(first_of(kept) == 9);
  graph.launch();  // which must not be done any more
  CHECK(first_of(kept) == 2);
}
