#include "core/dry_run.h"

#include <catch2/catch.hpp>
#include <thread>

#include "core/error.h"
#include "core/host_copy.h"
#include "core/parallel.h"
#include "core/tensor.h"

using namespace moh;

namespace {

constexpr Device kGpu{Device::Type::kCuda, 0};

const std::int64_t& peak_of(const DryUsage& usage, MemoryPurpose purpose) {
  return usage.stats.of(purpose).peak_bytes;
}

}  // namespace

TEST_CASE("dry run: tensors are counted by purpose, and take nothing") {
  const MemoryStats before = CpuAllocator::instance().stats();
  const DryRunScope scope;
  {
    const Tensor activation = empty({std::int64_t{1} << 38}, DType::kFloat32);
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    const Tensor gradient = empty({std::int64_t{1} << 30}, DType::kBFloat16);
    gradient.set_purpose(MemoryPurpose::kOptimizer);
  }
  const Tensor later = empty({1 << 20}, DType::kFloat32);
  const DryUsage usage = scope.memory()->usage(kCpu);
  CHECK(peak_of(usage, MemoryPurpose::kActivation) == std::int64_t{1} << 40);
  CHECK(peak_of(usage, MemoryPurpose::kGradient) == std::int64_t{1} << 31);
  CHECK(peak_of(usage, MemoryPurpose::kOptimizer) == std::int64_t{1} << 31);
  CHECK(usage.stats.total.peak_bytes == (std::int64_t{1} << 40) + (std::int64_t{1} << 31));
  CHECK(usage.stats.total.current_bytes == 4 << 20);
  CHECK(usage.at_peak[static_cast<std::size_t>(MemoryPurpose::kActivation)] == std::int64_t{1} << 40);
  const MemoryStats after = CpuAllocator::instance().stats();
  CHECK(after.total.current_bytes == before.total.current_bytes);
  CHECK(after.reserved_bytes == before.reserved_bytes);
}

TEST_CASE("dry run: blocks are as large as those of the device's allocator") {
  CpuAllocator& allocator = CpuAllocator::instance();
  for (const std::int64_t bytes : {1, 100, 5000, 200'000}) {
    const std::int64_t before = allocator.stats().total.current_bytes;
    const Tensor real = empty({bytes}, DType::kUInt8);
    const DryRunScope scope;
    const Tensor on_cpu = empty({bytes}, DType::kUInt8), on_gpu = empty({bytes}, DType::kUInt8, kGpu);
    CHECK(scope.memory()->usage(kCpu).stats.total.current_bytes ==
          allocator.stats().total.current_bytes - before);
    CHECK(scope.memory()->usage(kGpu).stats.total.current_bytes == bytes);
  }
}

TEST_CASE("dry run: host code may fill and read tables of any size") {
  const DryRunScope scope;
  for (const std::int64_t size : {10, 1 << 20}) {
    const Tensor table = empty({size}, DType::kInt64), other = empty({size}, DType::kInt64);
    CHECK(table.span<std::int64_t>().back() == 0);
    table.span<std::int64_t>().back() = 7;
    CHECK(table.span<std::int64_t>().back() == 7);
    CHECK(other.span<std::int64_t>().back() == 0);
  }
  CHECK(tensor_of<float>({2}, {1, 2}).span<float>()[1] == 2);
}

TEST_CASE("dry run: nothing is computed, and questions about contents are answered") {
  const Tensor real = full({3}, 5.0, DType::kFloat32);
  const DryRunScope scope;
  const Tensor x = full({1}, 5.0, DType::kFloat32, kGpu), y = x.to(kCpu).to(DType::kBFloat16);
  CHECK(x.item() == 0);
  CHECK(y.all_finite());
  x.add(x.clone());
  x.scale(2.0);
  real.fill(1.0);
  CHECK(real.span<float>()[0] == 5.0F);
  CHECK(HostCopy(x).get().span<float>()[0] == 0.0F);
  CHECK_THROWS_AS(x.add(real), ShapeError);
  bool ran = false;
  parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ran = true; });
  CHECK_FALSE(ran);
}

TEST_CASE("dry run: more than any device could have is an error, before sums overflow") {
  const DryRunScope scope;
  const Tensor most = empty({std::int64_t{1} << 56}, DType::kUInt8);
  CHECK_THROWS_AS(empty({1}, DType::kUInt8), MemoryError);
  CHECK_THROWS_AS(empty({std::int64_t{1} << 62}, DType::kFloat64), MemoryError);
  CHECK_NOTHROW(empty({1}, DType::kUInt8, kGpu));
}

TEST_CASE("dry run: is the calling thread's own, may be nested, and ends before its storage") {
  Tensor kept;
  {
    const DryRunScope outer;
    {
      const DryRunScope inner;
      kept = empty({100}, DType::kFloat32);
      CHECK(outer.memory()->usage(kCpu).stats.total.current_bytes == 0);
      bool in_thread = true;
      std::thread([&] { in_thread = dry_run(); }).join();
      CHECK_FALSE(in_thread);
    }
    CHECK(DryRunScope::current() == &outer);
  }
  CHECK_FALSE(dry_run());
  kept = Tensor();
  CHECK(full({1}, 3.0, DType::kFloat32).item() == 3);
}

TEST_CASE("dry run: workspace is counted at its peak, and that of a library once") {
  DryRunScope scope;
  count_workspace(1000, kGpu);
  count_workspace(3000, kGpu);
  for (int i = 0; i < 2; ++i) scope.keep_workspace("library", 500, kGpu);
  const MemoryStats stats = scope.memory()->usage(kGpu).stats;
  CHECK(stats.of(MemoryPurpose::kWorkspace).peak_bytes == 3000);
  CHECK(stats.of(MemoryPurpose::kWorkspace).current_bytes == 500);
}
