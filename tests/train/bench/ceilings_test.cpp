#include "train/bench/ceilings.h"

#include <catch2/catch.hpp>

#include "core/allocator.h"

using namespace moh;

TEST_CASE("bench: ceilings are measured, and their memory is given back") {
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  const Ceilings ceilings = measure_ceilings();
  CHECK(ceilings.fma_gflops > 0);
  CHECK(ceilings.matmul_gflops > 0);
  const CopyRates copy = measure_copy_rates(1 << 20);
  CHECK(copy.memcpy > 0);
  CHECK(copy.stores > 0);
  CHECK(CpuAllocator::instance().stats().total.current_bytes == before);
}
