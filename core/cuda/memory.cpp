#include <mutex>

#include "core/cuda/device.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

std::mutex stats_mutex;
MemoryStats counts;

/// What the pool holds from the system.
std::int64_t reserved_bytes() {
  int index = 0;
  cudaMemPool_t pool = nullptr;
  std::uint64_t bytes = 0;
  MOH_CUDA_CALL(cudaGetDevice(&index));
  MOH_CUDA_CALL(cudaDeviceGetDefaultMemPool(&pool, index));
  MOH_CUDA_CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  return static_cast<std::int64_t>(bytes);
}

[[noreturn]] void refuse(std::size_t bytes) {
  cudaGetLastError();
  std::size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  throw MemoryError("cuda memory: expected " + std::to_string(bytes) +
                    " more bytes, but the device refused (" + std::to_string(counts.total.current_bytes) +
                    " bytes in use by this process, " + std::to_string(free_bytes) + " of " +
                    std::to_string(total_bytes) + " free); use a smaller batch or model");
}

}  // namespace

void* allocate(std::size_t bytes, MemoryPurpose purpose) {
  const std::size_t wanted = bytes == 0 ? 1 : bytes;  // CUDA has no block of no bytes
  void* block = nullptr;
  const cudaError_t status = cudaMallocAsync(&block, wanted, stream());
  const std::lock_guard lock(stats_mutex);
  if (status == cudaErrorMemoryAllocation) refuse(wanted);
  check(status, "cudaMallocAsync");
  counts.count(purpose, static_cast<std::int64_t>(bytes));
  const std::int64_t reserved = reserved_bytes();
  if (reserved > counts.reserved_bytes) ++counts.system_allocations;
  counts.reserved_bytes = reserved;
  return block;
}

void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept {
  // A failure here belongs to a kernel before, and the next call reports it.
  cudaFreeAsync(block, stream());
  const std::lock_guard lock(stats_mutex);
  counts.count(purpose, -static_cast<std::int64_t>(bytes));
}

void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept {
  const std::lock_guard lock(stats_mutex);
  counts.count(from, -static_cast<std::int64_t>(bytes));
  counts.count(to, static_cast<std::int64_t>(bytes));
}

MemoryStats memory_stats() {
  const std::lock_guard lock(stats_mutex);
  return counts;
}

void reset_memory_peaks() {
  const std::lock_guard lock(stats_mutex);
  counts.reset_peaks();
}

}  // namespace moh::cuda
