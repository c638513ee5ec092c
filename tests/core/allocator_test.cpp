#include "core/allocator.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "tests/support/failing_new.h"

using namespace moh;

namespace {

CpuAllocator& allocator() {
  return CpuAllocator::instance();
}

bool is_aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

/// Tensors that one step of a training loop would make, some of them alive at once.
void step_of_tensors() {
  Tensor x = empty({64, 100}, DType::kFloat32);
  Tensor y = empty_like(x);
  {
    Tensor scratch = empty({3000}, DType::kFloat64);
    y = empty({64, 100}, DType::kBFloat16);
  }
  Tensor z = empty({1 << 20}, DType::kFloat32);
}

}  // namespace

TEST_CASE("allocator: a block that comes back is handed out again") {
  void* block = allocator().allocate(1000, MemoryPurpose::kData);
  allocator().release(block, 1000, MemoryPurpose::kData);
  const auto before = allocator().stats();
  void* again = allocator().allocate(1001, MemoryPurpose::kData);  // same size class
  CHECK(again == block);
  CHECK(allocator().stats().system_allocations == before.system_allocations);
  CHECK(allocator().stats().reserved_bytes == before.reserved_bytes);
  allocator().release(again, 1001, MemoryPurpose::kData);
}

TEST_CASE("allocator: a step asks the system for nothing after the first") {
  step_of_tensors();
  const auto after_first = allocator().stats();
  for (int step = 0; step < 10; ++step) step_of_tensors();
  const auto after_all = allocator().stats();
  CHECK(after_all.system_allocations == after_first.system_allocations);
  CHECK(after_all.total.current_bytes == after_first.total.current_bytes);
}

TEST_CASE("allocator: blocks are large enough, distinct and aligned to 64 bytes") {
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 65UL, 127UL, 1000UL, 4097UL, 65537UL, (2UL << 20) + 1}) {
    auto* block = static_cast<char*>(allocator().allocate(bytes, MemoryPurpose::kData));
    CHECK(is_aligned(block, 64));
    if (bytes >= (128UL << 10)) CHECK(is_aligned(block, 4096));
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    CHECK(std::all_of(block, block + bytes, [&](char c) { return c == static_cast<char>(i); }));
    allocator().release(block, bytes, MemoryPurpose::kData);
  }
}

TEST_CASE(
    "allocator: current and peak bytes are counted by purpose, and the total's peak is that of the sum") {
  allocator().reset_peaks();
  const auto start = allocator().stats();
  constexpr std::size_t kBytes = 4096;
  void* a = allocator().allocate(kBytes, MemoryPurpose::kGradient);
  allocator().release(a, kBytes, MemoryPurpose::kGradient);
  void* b = allocator().allocate(kBytes, MemoryPurpose::kOptimizer);
  const auto stats = allocator().stats();
  const auto grown = [&](MemoryPurpose purpose) {
    return MemoryStats::Count{stats.of(purpose).current_bytes - start.of(purpose).current_bytes,
                              stats.of(purpose).peak_bytes - start.of(purpose).peak_bytes};
  };
  CHECK(grown(MemoryPurpose::kGradient).current_bytes == 0);
  CHECK(grown(MemoryPurpose::kGradient).peak_bytes == kBytes);
  CHECK(grown(MemoryPurpose::kOptimizer).current_bytes == kBytes);
  CHECK(grown(MemoryPurpose::kParameter).peak_bytes == 0);
  CHECK(stats.total.current_bytes - start.total.current_bytes == kBytes);
  CHECK(stats.total.peak_bytes - start.total.peak_bytes == kBytes);  // never both at once
  allocator().release(b, kBytes, MemoryPurpose::kOptimizer);
  allocator().reset_peaks();
  CHECK(allocator().stats().total.peak_bytes == start.total.current_bytes);
}

TEST_CASE("allocator: a tensor is counted under the purpose of its scope until it is moved to another") {
  CHECK(current_memory_purpose() == MemoryPurpose::kActivation);
  const auto start = allocator().stats();
  const auto grown = [&](MemoryPurpose purpose) {
    return allocator().stats().of(purpose).current_bytes - start.of(purpose).current_bytes;
  };
  {
    Tensor tensor;
    {
      const MemoryPurposeScope outer(MemoryPurpose::kOptimizer);
      {
        const MemoryPurposeScope inner(MemoryPurpose::kParameter);
        tensor = empty({1024}, DType::kFloat32);
      }
      CHECK(current_memory_purpose() == MemoryPurpose::kOptimizer);
    }
    CHECK(current_memory_purpose() == MemoryPurpose::kActivation);
    CHECK(grown(MemoryPurpose::kParameter) == 4096);
    tensor.set_purpose(MemoryPurpose::kGradient);
    CHECK(grown(MemoryPurpose::kParameter) == 0);
    CHECK(grown(MemoryPurpose::kGradient) == 4096);
  }
  CHECK(grown(MemoryPurpose::kGradient) == 0);
}

TEST_CASE("allocator: trim gives kept blocks back and leaves the others alone") {
  Tensor kept = full({1000}, 3.0, DType::kFloat32);
  { Tensor dropped = empty({100000}, DType::kFloat32); }
  const auto before = allocator().stats();
  allocator().trim();
  const auto after = allocator().stats();
  CHECK(after.reserved_bytes <= before.reserved_bytes - 400000);
  CHECK(after.reserved_bytes == after.total.current_bytes);
  CHECK(after.total.current_bytes == before.total.current_bytes);
  CHECK(kept.data<float>()[999] == 3.0F);
}

TEST_CASE("allocator: what the system cannot give is a MemoryError that leaves the counts alone") {
  const auto before = allocator().stats();
  const auto refused = [&](std::size_t bytes) {
    CHECK_THROWS_AS(allocator().allocate(bytes, MemoryPurpose::kActivation), MemoryError);
    CHECK_THROWS_WITH(allocator().allocate(bytes, MemoryPurpose::kActivation),
                      Catch::Contains("cpu memory: expected " + std::to_string(bytes)) &&
                          Catch::Contains("use a smaller batch or model"));
  };
  // Sizes whose rounding to a block would wrap around must not come back as a small block.
  refused(std::numeric_limits<std::size_t>::max());
  refused(std::numeric_limits<std::size_t>::max() - 7);
#ifndef MOH_SANITIZED  // the sanitizer's allocator ends the process instead of returning null
  refused(std::size_t{1} << 60);
#endif
  CHECK(allocator().stats().total.current_bytes == before.total.current_bytes);
  CHECK_THROWS_AS(empty({(std::int64_t{1} << 61) - 1}, DType::kFloat64), MemoryError);
  CHECK_THROWS_AS(empty({std::int64_t{1} << 62}, DType::kFloat64), MemoryError);
}

TEST_CASE("allocator: threads may allocate and release at once") {
  const auto before = allocator().stats();
  std::vector<std::thread> threads;
  std::atomic<int> damaged = 0;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&damaged, id] {
      for (int i = 0; i < 2000; ++i) {
        const auto bytes = static_cast<std::size_t>(64 + (i * 37) % 900);
        auto* block = static_cast<unsigned char*>(allocator().allocate(bytes, MemoryPurpose::kWorkspace));
        std::memset(block, id, bytes);
        if (block[0] != id || block[bytes - 1] != id) ++damaged;
        allocator().release(block, bytes, MemoryPurpose::kWorkspace);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(damaged == 0);
  CHECK(allocator().stats().total.current_bytes == before.total.current_bytes);
}

TEST_CASE("allocator: purposes have names") {
  CHECK(memory_purpose_name(MemoryPurpose::kParameter) == "parameter");
  CHECK(memory_purpose_name(MemoryPurpose::kOptimizer) == "optimizer");
  CHECK(memory_purpose_name(MemoryPurpose::kData) == "data");
}

TEST_CASE("allocator: blocks come back although there is no memory to remember them") {
  std::vector<void*> blocks;
  constexpr std::size_t kBytes = 7000;  // a size that no other test uses, so that its list must grow
  for (int i = 0; i < 100; ++i) blocks.push_back(allocator().allocate(kBytes, MemoryPurpose::kData));
  const MemoryStats before = allocator().stats();
  {
    const FailingNew no_memory;
    for (void* block : blocks) allocator().release(block, kBytes, MemoryPurpose::kData);
  }
  const MemoryStats after = allocator().stats();
  CHECK(after.total.current_bytes < before.total.current_bytes);
  CHECK(after.reserved_bytes < before.reserved_bytes);  // freed, not leaked
}
