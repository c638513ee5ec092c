#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace moh {

/// What memory is used for; the allocator counts bytes by it.
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

/// Bytes handed out, by purpose and in all.
struct MemoryStats {
  struct Count {
    std::int64_t current_bytes = 0;
    std::int64_t peak_bytes = 0;
  };
  std::array<Count, kNumMemoryPurposes> by_purpose{};
  Count total;                          ///< its peak is that of the sum, not the sum of the peaks
  std::int64_t reserved_bytes = 0;      ///< held from the system: handed out or kept for reuse
  std::int64_t system_allocations = 0;  ///< times that the system was asked for memory

  const Count& of(MemoryPurpose purpose) const { return by_purpose[static_cast<std::size_t>(purpose)]; }
  /// Adds `bytes`, negative ones too, to a purpose and to the total.
  void count(MemoryPurpose purpose, std::int64_t bytes);
  /// Sets each peak to the current value.
  void reset_peaks();
};

/// Hands out blocks of main memory and keeps what comes back, so that a training step asks the system for
/// nothing after the first: small blocks for the next request of about that size, large ones as parts of a
/// MemoryRegion, which serve requests of any size. Blocks are aligned to 64 bytes, large ones to a page;
/// these sit on huge pages where the system has them (a first touch is three times faster there).
/// Thread-safe.
class CpuAllocator {
 public:
  static CpuAllocator& instance();

  /// A block of at least `bytes`, contents undefined. Throws MemoryError when the system has none.
  void* allocate(std::size_t bytes, MemoryPurpose purpose);
  /// Takes back a block of allocate(bytes, purpose).
  void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept;

  /// Counts a block of allocate(bytes, from) under `to` from now on.
  void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept;

  MemoryStats stats() const;
  /// Sets each peak to the current value.
  void reset_peaks();
  /// Returns all kept blocks to the system.
  void trim();

 private:
  CpuAllocator();
  ~CpuAllocator();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh
