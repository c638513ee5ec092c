#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/allocator.h"
#include "core/device.h"

namespace moh {

class Storage;

/// Memory of a device in a dry run.
struct DryUsage {
  MemoryStats stats;  ///< `reserved_bytes` and `system_allocations` stay 0
  std::array<std::int64_t, kNumMemoryPurposes> at_peak{};  ///< by purpose, when the total was at its peak
};

/// Counts blocks of memory without allocating them. A block has an address: small blocks are real, zeroed
/// memory, so that host code may fill and read a table; larger ones are ranges of one reservation of address
/// space, of which the system backs only the pages that are written to. Thread-safe.
class DryMemory {
 public:
  DryMemory();
  ~DryMemory();
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;

  /// Counts the block that the device's allocator would return for `bytes`. Throws MemoryError when all
  /// blocks of a device together exceed 2^56 bytes, so that no sum of sizes can overflow.
  std::byte* allocate(std::size_t bytes, Device device, MemoryPurpose purpose);
  void release(std::byte* block, std::size_t bytes, Device device, MemoryPurpose purpose) noexcept;
  void recount(std::size_t bytes, Device device, MemoryPurpose from, MemoryPurpose to) noexcept;

  DryUsage usage(Device device) const;
  void reset_peaks();

 private:
  std::byte* address_for(std::size_t bytes);
  std::int64_t block_bytes(std::size_t bytes, Device device) const;
  DryUsage& usage_of(Device device) { return usage_[device == kCpu ? 0 : 1]; }

  mutable std::mutex mutex_;
  std::array<DryUsage, 2> usage_;  // of the CPU, of a GPU
  std::size_t page_;
  std::byte* reserved_ = nullptr;  // the reservation
  std::size_t reserved_bytes_ = 0, next_ = 0;
};

/// A dry run, like jax.eval_shape or PyTorch's meta tensors: inside the scope the calling thread runs the
/// usual code, models, backward pass and optimiser included, but storage is counted instead of allocated
/// (DryMemory) and nothing is computed: kernels (run_kernel), parallel loops, matrix multiplications, copies
/// and fills of tensors, and transfers between devices return at once. Any device may be named, even one that
/// this build or machine does not have. Profilers count operations as they do otherwise.
///
/// Contents of tensors are undefined, those of small ones zero. Queries of contents return values that keep
/// the program on its usual path: item() is 0, all_finite() is true, indices are in range, head lists have
/// their maximum length (ops/attention/head_lists.h). Storage may outlive the scope; its contents stay
/// meaningless. Scopes nest: the inner one counts.
class DryRunScope {
 public:
  DryRunScope();
  ~DryRunScope();
  DryRunScope(const DryRunScope&) = delete;
  DryRunScope& operator=(const DryRunScope&) = delete;

  /// The scope of this thread, or null.
  static DryRunScope* current() { return current_; }

  const std::shared_ptr<DryMemory>& memory() const { return memory_; }
  /// Counts `bytes` of workspace that `owner` (a library) allocates on first use and never frees: once for
  /// each owner, until the scope ends.
  void keep_workspace(const std::string& owner, std::size_t bytes, Device device);

 private:
  inline static thread_local constinit DryRunScope* current_ = nullptr;
  DryRunScope* outer_;
  std::shared_ptr<DryMemory> memory_;
  std::map<std::string, std::shared_ptr<Storage>> kept_;
};

/// Whether this thread is in a dry run.
inline bool dry_run() {
  return DryRunScope::current() != nullptr;
}

/// In a dry run: counts the workspace that a kernel would allocate and free within its call.
void count_workspace(std::size_t bytes, Device device);

}  // namespace moh
