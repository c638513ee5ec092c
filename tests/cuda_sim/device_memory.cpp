#include "tests/cuda_sim/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <system_error>

#include "core/block_size.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/registered_memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace moh::sim {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

int open_accesses = 0;
std::size_t protected_bytes = 0;  // whose protection changes, at the beginning of the memory

void forbid([[maybe_unused]] const void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(block, bytes);
#endif
}
void allow([[maybe_unused]] const void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(block, bytes);
#endif
}

/// Whether [address, address + bytes) lies within one of the blocks.
bool holds(const std::map<std::byte*, std::size_t>& blocks, const void* address, std::size_t bytes) {
  auto* const byte = static_cast<std::byte*>(const_cast<void*>(address));
  const auto after = blocks.upper_bound(byte);
  if (after == blocks.begin()) return false;
  const auto& [block, size] = *std::prev(after);
  return byte + bytes <= block + size;
}

}  // namespace

/// The memory that a block of `bytes` takes.
std::size_t DeviceMemory::block_size(std::size_t bytes) {
  return round_up(bytes, kGap) + kGap;
}

DeviceMemory& DeviceMemory::instance() {
  static auto* memory = new DeviceMemory;  // as a device, it outlives all that uses it
  return *memory;
}

DeviceMemory::DeviceMemory() {
  // In huge pages, where the kernel has them: each launch changes the protection of all pages, twice.
  void* memory =
      mmap(nullptr, kBytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "simulated device memory");
  base_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(memory), kHugePage));
}

void DeviceMemory::protect(int protection) const {
  if (end_ > protected_bytes) {
    // The advice makes them a mapping that is never one with the rest, which the system would join and part.
    protected_bytes = std::max(kHugePage, std::bit_ceil(end_));
    madvise(base_, protected_bytes, MADV_HUGEPAGE);
  }
  if (protected_bytes > 0 && mprotect(base_, protected_bytes, protection) != 0)
    throw std::system_error(errno, std::generic_category(), "simulated device memory");
}

bool DeviceMemory::has_room(std::size_t size, Source source) const {
  const std::size_t kept = source == Source::kPool ? pool_held_ - pool_used_ : 0;
  return size <= kept + free_bytes();
}

void DeviceMemory::count(std::byte* block, std::size_t size, Source source) {
  if (source == Source::kPool) {
    pool_used_ += size;
    pool_held_ = std::max(pool_held_, pool_used_);
  } else {
    taken_from_device_ += size;
    from_device_.insert(block);
  }
}

void* DeviceMemory::allocate(std::size_t bytes, Source source) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = block_size(bytes);
  if (!has_room(size, source)) return nullptr;
  std::byte* block = nullptr;
  if (const auto fitting = free_.find(size); fitting != free_.end()) {
    block = fitting->second;
    free_.erase(fitting);
  } else {
    if (size > kBytes - end_) return nullptr;
    block = base_ + end_;
    end_ += size;
  }
  blocks_[block] = bytes;
  count(block, size, source);
  return block;
}

void DeviceMemory::open_block(void* block, std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  const Access access;
  allow(block, size);
  std::memset(block, 0xff, size);
  forbid(static_cast<std::byte*>(block) + bytes, size - bytes);
}

void DeviceMemory::close_block(void* block, std::size_t bytes) {
  forbid(block, block_size(bytes));
}

std::size_t DeviceMemory::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::byte*>(block));
  if (found == blocks_.end()) throw KernelFault("free of an address that is no block of the device");
  const std::size_t bytes = found->second;
  if (RegisteredMemory::instance().is_in(found->first, bytes)) {
    throw KernelFault("free of " + std::to_string(bytes) +
                      " bytes that a captured collective has registered, and its communicator not let go");
  }
  (from_device_.erase(found->first) > 0 ? taken_from_device_ : pool_used_) -= block_size(bytes);
  free_.emplace(block_size(bytes), found->first);
  blocks_.erase(found);
  return bytes;
}

std::int64_t DeviceMemory::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [block, size] : blocks_) bytes += static_cast<std::int64_t>(size);
  return bytes;
}

void* DeviceMemory::allocate_pinned(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto* const block = static_cast<std::byte*>(std::malloc(bytes));
  if (block != nullptr) pinned_[block] = bytes;
  return block;
}

std::size_t DeviceMemory::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [block, bytes] : pinned_) sum += bytes;
  return sum;
}

bool DeviceMemory::is_pinned(const void* address) const {
  const std::lock_guard lock(mutex_);
  return holds(pinned_, address, 0);
}

bool DeviceMemory::is_reachable(const void* address) const {
  const std::lock_guard lock(mutex_);
  return holds(blocks_, address, 0) || holds(pinned_, address, 0);
}

void DeviceMemory::require(const void* address, std::size_t bytes, const char* what) const {
  const std::lock_guard lock(mutex_);
  if (holds(blocks_, address, bytes)) return;
  throw KernelFault(std::string(what) + ": " + std::to_string(bytes) +
                    " bytes that do not lie in a block of the device");
}

DeviceMemory::Access::Access() {
  const DeviceMemory& memory = instance();
  memory.mutex_.lock();
  if (open_accesses++ == 0) memory.protect(PROT_READ | PROT_WRITE);
}

DeviceMemory::Access::~Access() {
  const DeviceMemory& memory = instance();
  if (--open_accesses == 0) memory.protect(PROT_NONE);
  memory.mutex_.unlock();
}

LaunchLog& LaunchLog::instance() {
  static auto* log = new LaunchLog;
  return *log;
}

}  // namespace moh::sim
