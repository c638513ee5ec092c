#include "core/allocator.h"

#include <algorithm>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/block_size.h"
#include "core/error.h"
#include "core/memory_region.h"

#ifdef MOH_SANITIZED
#include <sanitizer/asan_interface.h>
#endif

namespace moh {

namespace {

// More than any system can allocate; below it, rounding up to a block cannot overflow.
constexpr std::size_t kMostBytes = std::size_t{1} << 62;

thread_local MemoryPurpose thread_purpose = MemoryPurpose::kActivation;

/// Unpoisons the bytes of a block for the address sanitizer.
void allow([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#ifdef MOH_SANITIZED
  __asan_unpoison_memory_region(block, bytes);
#endif
}
void forbid([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#ifdef MOH_SANITIZED
  __asan_poison_memory_region(block, bytes);
#endif
}

}  // namespace

std::string_view memory_purpose_name(MemoryPurpose purpose) {
  constexpr std::array<std::string_view, kNumMemoryPurposes> kNames = {"parameter",  "gradient",  "optimizer",
                                                                       "activation", "workspace", "data"};
  return kNames.at(static_cast<std::size_t>(purpose));
}

MemoryPurposeScope::MemoryPurposeScope(MemoryPurpose purpose) : previous_(thread_purpose) {
  thread_purpose = purpose;
}
MemoryPurposeScope::~MemoryPurposeScope() {
  thread_purpose = previous_;
}
MemoryPurpose current_memory_purpose() {
  return thread_purpose;
}

void MemoryStats::count(MemoryPurpose purpose, std::int64_t bytes) {
  for (Count* count : {&by_purpose[static_cast<std::size_t>(purpose)], &total}) {
    count->current_bytes += bytes;
    count->peak_bytes = std::max(count->peak_bytes, count->current_bytes);
  }
}

void MemoryStats::reset_peaks() {
  for (Count& count : by_purpose) count.peak_bytes = count.current_bytes;
  total.peak_bytes = total.current_bytes;
}

struct CpuAllocator::Impl {
  mutable std::mutex mutex;
  MemoryRegion region;
  /// Cached small blocks, by size. Data, which another thread prefetches, has its own: otherwise the number
  /// of blocks in use at once would depend on the timing of threads, and a late step might have to allocate.
  std::unordered_map<std::size_t, std::vector<void*>> kept, kept_for_data;
  std::int64_t small_bytes = 0, small_allocations = 0;
  MemoryStats counts;

  std::size_t block_bytes(std::size_t bytes) const { return block_size(bytes, region.page_bytes()); }

  auto& kept_for(MemoryPurpose purpose) { return purpose == MemoryPurpose::kData ? kept_for_data : kept; }

  void* take(std::size_t size, MemoryPurpose purpose) {
    if (size >= kLargeBlock) return region.take(size);
    std::vector<void*>& blocks = kept_for(purpose)[size];
    if (blocks.empty()) return take_small(size);
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  void* take_small(std::size_t size) {
    void* block = std::aligned_alloc(kBlockAlignment, size);
    if (block == nullptr) return nullptr;
    ++small_allocations;
    small_bytes += static_cast<std::int64_t>(size);
    return block;
  }
  void keep(void* block, std::size_t size, MemoryPurpose purpose) noexcept {
    if (size >= kLargeBlock) {
      region.give_back(block, size);
      return;
    }
    try {
      kept_for(purpose)[size].push_back(block);
    } catch (const std::bad_alloc&) {
      free_small(block, size);  // no memory for its entry in the cache
    }
  }
  void free_small(void* block, std::size_t size) noexcept {
    allow(block, size);
    std::free(block);
    small_bytes -= static_cast<std::int64_t>(size);
  }

  void free_kept() {
    region.trim();
    for (auto* blocks_by_size : {&kept, &kept_for_data}) {
      for (auto& [size, blocks] : *blocks_by_size) {
        for (void* block : blocks) free_small(block, size);
      }
      blocks_by_size->clear();
    }
  }

  [[noreturn]] void refuse(std::size_t bytes) const {
    throw MemoryError("cpu memory: expected " + std::to_string(bytes) +
                      " more bytes, but the system refused (" + std::to_string(counts.total.current_bytes) +
                      " bytes in use); use a smaller batch or model");
  }
};

CpuAllocator::CpuAllocator() : impl_(std::make_unique<Impl>()) {}
CpuAllocator::~CpuAllocator() = default;

CpuAllocator& CpuAllocator::instance() {
  // Never destroyed: tensors with static lifetime may be released after any destructor here would have run.
  static CpuAllocator* allocator = new CpuAllocator;
  return *allocator;
}

void* CpuAllocator::allocate(std::size_t bytes, MemoryPurpose purpose) {
  const std::lock_guard lock(impl_->mutex);
  if (bytes > kMostBytes) impl_->refuse(bytes);
  const std::size_t size = impl_->block_bytes(bytes);
  void* block = impl_->take(size, purpose);
  if (block == nullptr) {
    impl_->free_kept();
    block = impl_->take(size, purpose);
  }
  if (block == nullptr) impl_->refuse(bytes);
  impl_->counts.count(purpose, static_cast<std::int64_t>(size));
  forbid(block, size);
  allow(block, bytes);
  return block;
}

void CpuAllocator::release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept {
  const std::lock_guard lock(impl_->mutex);
  const std::size_t size = impl_->block_bytes(bytes);
  forbid(block, size);
  impl_->keep(block, size, purpose);
  impl_->counts.count(purpose, -static_cast<std::int64_t>(size));
}

void CpuAllocator::recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept {
  const std::lock_guard lock(impl_->mutex);
  const auto size = static_cast<std::int64_t>(impl_->block_bytes(bytes));
  impl_->counts.count(from, -size);
  impl_->counts.count(to, size);
}

MemoryStats CpuAllocator::stats() const {
  const std::lock_guard lock(impl_->mutex);
  MemoryStats stats = impl_->counts;
  stats.reserved_bytes = impl_->small_bytes + static_cast<std::int64_t>(impl_->region.backed_bytes());
  stats.system_allocations = impl_->small_allocations + impl_->region.growths();
  return stats;
}

void CpuAllocator::reset_peaks() {
  const std::lock_guard lock(impl_->mutex);
  impl_->counts.reset_peaks();
}

void CpuAllocator::trim() {
  const std::lock_guard lock(impl_->mutex);
  impl_->free_kept();
#ifdef __GLIBC__
  malloc_trim(0);  // small blocks that malloc keeps, see keep_freed_memory
#endif
}

}  // namespace moh
