#include "train/base/measure/ceilings.h"

#include <catch2/catch.hpp>

#include "core/allocator.h"

using namespace moh;

TEST_CASE("bench: ceilings are measured, and their memory is given back") {
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  const Ceilings ceilings = measure_ceilings();
  CHECK(ceilings.fma_gflops.value() > 0);
  CHECK_FALSE(ceilings.published_gflops.has_value());
  CHECK(ceilings.matmul_gflops > 0);
  const CopyRates copy = measure_copy_rates(1 << 20);
  CHECK(copy.memcpy.value() > 0);
  CHECK(copy.stores > 0);
  CHECK(CpuAllocator::instance().stats().total.current_bytes == before);
}

TEST_CASE("bench: published peaks are those of the very GPU, and of its arithmetic") {
  CHECK(published_gflops("NVIDIA H200", DType::kBFloat16) == 989e3);
  CHECK(published_gflops("NVIDIA H100 80GB HBM3", DType::kBFloat16) == 989e3);
  CHECK(published_gflops("NVIDIA H100 80GB HBM3", DType::kFloat32) == 67e3);
  CHECK(published_gflops("NVIDIA H100 80GB HBM3", DType::kFloat32, /*tf32=*/true) == 495e3);
  CHECK(published_gflops("NVIDIA A100-SXM4-80GB", DType::kBFloat16, /*tf32=*/true) == 312e3);
  CHECK_FALSE(published_gflops("NVIDIA H200", DType::kFloat64).has_value());
  for (const char* other : {"NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "simulated GPU", ""}) {
    CHECK_FALSE(published_gflops(other, DType::kBFloat16).has_value());
    CHECK_FALSE(published_gflops(other, DType::kFloat32).has_value());
  }
}
