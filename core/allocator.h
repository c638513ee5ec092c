#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace moh {

/// The uses of memory, by which the allocator counts bytes.
enum class MemoryPurpose : std::uint8_t { kParameter, kGradient, kOptimizer, kActivation, kWorkspace, kData };
inline constexpr int kNumMemoryPurposes = 6;

/// "parameter", "gradient", "optimizer", "activation", "workspace", "data".
std::string_view memory_purpose_name(MemoryPurpose purpose);

/// Sets the purpose of the calling thread's allocations for its own lifetime; the default is kActivation.
class MemoryPurposeScope {
 public:
  explicit MemoryPurposeScope(MemoryPurpose purpose);
  ~MemoryPurposeScope();
  MemoryPurposeScope(const MemoryPurposeScope&) = delete;
  MemoryPurposeScope& operator=(const MemoryPurposeScope&) = delete;

 private:
  MemoryPurpose previous_;
};

MemoryPurpose current_memory_purpose();

/// Bytes allocated, by purpose and in total.
struct MemoryStats {
  struct Count {
    std::int64_t current_bytes = 0;
    std::int64_t peak_bytes = 0;
  };
  std::array<Count, kNumMemoryPurposes> by_purpose{};
  Count total;                          ///< its peak is that of the sum, not the sum of the peaks
  std::int64_t reserved_bytes = 0;      ///< held from the system: allocated or cached for reuse
  std::int64_t system_allocations = 0;  ///< number of allocations from the system (mmap, malloc, cudaMalloc)

  const Count& of(MemoryPurpose purpose) const { return by_purpose[static_cast<std::size_t>(purpose)]; }
  /// Adds `bytes`, negative ones too, to a purpose and to the total.
  void count(MemoryPurpose purpose, std::int64_t bytes);
  /// Sets each peak to the current value.
  void reset_peaks();
};

/// Caching allocator for host memory: from the second training step on, nothing is allocated from the system.
/// Small freed blocks are kept for the next request of about that size; large ones are ranges of a
/// MemoryRegion, which serves requests of any size. Blocks are aligned to 64 bytes, large ones to a page;
/// large blocks are backed by huge pages where the system has them (a first touch is three times faster
/// there). Thread-safe.
class CpuAllocator {
 public:
  static CpuAllocator& instance();

  /// A block of at least `bytes`, contents undefined. Throws MemoryError when the system has no memory left.
  void* allocate(std::size_t bytes, MemoryPurpose purpose);
  /// Frees a block that allocate(bytes, purpose) returned.
  void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept;

  /// Moves a block of allocate(bytes, from) to the count of purpose `to`.
  void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept;

  MemoryStats stats() const;
  /// Sets each peak to the current value.
  void reset_peaks();
  /// Returns all cached blocks to the system.
  void trim();

 private:
  CpuAllocator();
  ~CpuAllocator();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh
