#include "core/scratch.h"

#include <catch2/catch.hpp>
#include <cstdint>

#include "core/allocator.h"

using namespace moh;

TEST_CASE("scratch: memory is aligned, counted as workspace, given back and reused") {
  const auto in_use = [] {
    return CpuAllocator::instance().stats().of(MemoryPurpose::kWorkspace).current_bytes;
  };
  const std::int64_t before = in_use();
  const void* first = nullptr;
  {
    const Scratch scratch(1000 * sizeof(float));
    float* values = scratch.as<float>();
    CHECK(reinterpret_cast<std::uintptr_t>(values) % 64 == 0);
    values[999] = 1.0F;
    first = values;
    CHECK(in_use() >= before + 4000);
  }
  CHECK(in_use() == before);
  const Scratch again(1000 * sizeof(float));
  CHECK(again.as<float>() == first);
}
