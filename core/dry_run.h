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

/// Counts blocks of memory without taking them. A block has an address: a small one is memory of its own,
/// zeroed, so that host code may fill and read a table; a larger one is a range of one reservation of address
/// space, of which the system backs only the pages that somebody writes to. Thread-safe.
class DryMemory {
 public:
  DryMemory();
  ~DryMemory();
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;

  /// Counts what the device's allocator would hand out for `bytes`. Throws MemoryError when all blocks of a
  /// device together exceed 2^56 bytes, below which sums of sizes cannot overflow.
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

/// A dry run, as shape evaluation in JAX or meta tensors in PyTorch: inside of it the code of the calling
/// thread runs as it is, models, backward pass and optimiser included, but storage is counted and not taken
/// (DryMemory), and arithmetic does not happen: kernels (run_kernel), parallel loops, matrix multiplications,
/// copies and fills of tensors, transfers between devices return at once. Any device may be named, also one
/// that this build or machine does not have. Profilers count operations as they do otherwise.
///
/// Contents of tensors are undefined, of small ones zero. What host code asks about contents is answered so
/// that the program takes its usual way: item() is 0, all_finite() is true, indices are in range, lists of
/// selected heads have their upper bound (ops/attention/head_lists.h). Storage may outlive the scope; its
/// contents are never of use. Scopes nest: the inner one counts.
class DryRunScope {
 public:
  DryRunScope();
  ~DryRunScope();
  DryRunScope(const DryRunScope&) = delete;
  DryRunScope& operator=(const DryRunScope&) = delete;

  /// That of this thread, or null.
  static DryRunScope* current() { return current_; }

  const std::shared_ptr<DryMemory>& memory() const { return memory_; }
  /// Workspace that its owner takes when it first needs it and never gives back, as libraries do: counted
  /// once for each `owner`, until the scope ends.
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

/// In a dry run: counts the workspace that a kernel would take and give back.
void count_workspace(std::size_t bytes, Device device);

}  // namespace moh
