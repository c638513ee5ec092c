#include "core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// No system gives more; below it, rounding up to a block cannot wrap around.
constexpr std::size_t kMostBytes = std::size_t{1} << 62;

thread_local MemoryPurpose thread_purpose = MemoryPurpose::kActivation;

/// Sizes are rounded up to an eighth of a power of two: at most 12.5% is lost, and steps whose tensors differ
/// by a few elements still find their blocks again.
std::size_t block_bytes(std::size_t bytes) {
  const std::size_t wanted = std::max(bytes, kAlignment);
  const std::size_t step = std::max(std::bit_floor(wanted) / 8, kAlignment);
  return (wanted + step - 1) / step * step;
}

void* system_allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  // Advice only: where it is refused, ordinary pages serve as well, only slower.
  if (block != nullptr && bytes >= kHugePage) madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return block;
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

struct CpuAllocator::Impl {
  mutable std::mutex mutex;
  std::unordered_map<std::size_t, std::vector<void*>> kept;  // by block size
  MemoryStats stats;

  void count(MemoryPurpose purpose, std::int64_t bytes) {
    for (MemoryStats::Count* count : {&stats.by_purpose[static_cast<std::size_t>(purpose)], &stats.total}) {
      count->current_bytes += bytes;
      count->peak_bytes = std::max(count->peak_bytes, count->current_bytes);
    }
  }

  void* take_kept(std::size_t size) {
    const auto found = kept.find(size);
    if (found == kept.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    return block;
  }

  void free_kept() {
    for (auto& [size, blocks] : kept) {
      for (void* block : blocks) {
        std::free(block);
        stats.reserved_bytes -= static_cast<std::int64_t>(size);
      }
    }
    kept.clear();
  }

  [[noreturn]] void refuse(std::size_t bytes) const {
    throw MemoryError("cpu memory: expected " + std::to_string(bytes) +
                      " more bytes, but the system refused (" + std::to_string(stats.total.current_bytes) +
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
  const std::size_t size = block_bytes(bytes);
  void* block = impl_->take_kept(size);
  if (block == nullptr) {
    block = system_allocate(size);
    if (block == nullptr) {
      impl_->free_kept();
      block = system_allocate(size);
    }
    if (block == nullptr) impl_->refuse(bytes);
    ++impl_->stats.system_allocations;
    impl_->stats.reserved_bytes += static_cast<std::int64_t>(size);
  }
  impl_->count(purpose, static_cast<std::int64_t>(size));
  return block;
}

void CpuAllocator::release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept {
  const std::size_t size = block_bytes(bytes);
  const std::lock_guard lock(impl_->mutex);
  impl_->kept[size].push_back(block);
  impl_->count(purpose, -static_cast<std::int64_t>(size));
}

void CpuAllocator::recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept {
  const auto size = static_cast<std::int64_t>(block_bytes(bytes));
  const std::lock_guard lock(impl_->mutex);
  impl_->count(from, -size);
  impl_->count(to, size);
}

MemoryStats CpuAllocator::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

void CpuAllocator::reset_peaks() {
  const std::lock_guard lock(impl_->mutex);
  for (MemoryStats::Count& count : impl_->stats.by_purpose) count.peak_bytes = count.current_bytes;
  impl_->stats.total.peak_bytes = impl_->stats.total.current_bytes;
}

void CpuAllocator::trim() {
  const std::lock_guard lock(impl_->mutex);
  impl_->free_kept();
}

}  // namespace moh
