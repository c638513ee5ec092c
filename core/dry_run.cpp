#include "core/dry_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/block_size.h"
#include "core/error.h"
#include "core/storage.h"

namespace moh {

namespace {

constexpr std::int64_t kDryBytes = std::int64_t{1} << 56;
/// Blocks of up to this many bytes are real memory.
constexpr std::size_t kSmallBlock = std::size_t{4} << 10;
/// Bytes of address space for all larger blocks. Once it is used up, allocation starts over at its beginning:
/// blocks may then overlap, which does no harm because their contents are undefined.
constexpr std::size_t kMostReserved = std::size_t{1} << 42, kLeastReserved = std::size_t{1} << 26;

void count(DryUsage& usage, MemoryPurpose purpose, std::int64_t bytes) {
  const std::int64_t peak = usage.stats.total.peak_bytes;
  usage.stats.count(purpose, bytes);
  if (usage.stats.total.peak_bytes == peak) return;
  for (std::size_t i = 0; i < usage.at_peak.size(); ++i) {
    usage.at_peak[i] = usage.stats.by_purpose[i].current_bytes;
  }
}

}  // namespace

DryMemory::DryMemory() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {}

DryMemory::~DryMemory() {
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

std::int64_t DryMemory::block_bytes(std::size_t bytes, Device device) const {
  return static_cast<std::int64_t>(device == kCpu ? block_size(bytes, page_) : bytes);
}

std::byte* DryMemory::allocate(std::size_t bytes, Device device, MemoryPurpose purpose) {
  const std::lock_guard lock(mutex_);
  DryUsage& usage = usage_of(device);
  const std::int64_t in_use = usage.stats.total.current_bytes;
  if (bytes > static_cast<std::size_t>(kDryBytes) || block_bytes(bytes, device) > kDryBytes - in_use) {
    throw MemoryError(error_message("dry run", "memory of " + device_name(device), "at most 2^56 bytes",
                                    std::to_string(bytes) + " bytes more than " + std::to_string(in_use),
                                    "use a smaller batch or model"));
  }
  std::byte* const block = address_for(bytes);
  count(usage, purpose, block_bytes(bytes, device));
  return block;
}

std::byte* DryMemory::address_for(std::size_t bytes) {
  if (bytes <= kSmallBlock) {
    const std::size_t size = block_size(bytes, page_);
    void* const block = std::aligned_alloc(kBlockAlignment, size);
    if (block == nullptr) throw MemoryError("dry run: the system has no memory left for a small block");
    return static_cast<std::byte*>(std::memset(block, 0, size));
  }
  for (std::size_t wanted = kMostReserved; reserved_ == nullptr; wanted /= 2) {
    if (wanted < kLeastReserved)
      throw MemoryError("dry run: the system has no address space left to reserve");
    void* const address =
        mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) continue;
    reserved_ = static_cast<std::byte*>(address);
    reserved_bytes_ = wanted;
  }
  const std::size_t size = round_up(bytes, page_);
  if (size > reserved_bytes_ - next_) next_ = 0;
  std::byte* const block = reserved_ + next_;
  if (size < reserved_bytes_) next_ += size;
  return block;
}

void DryMemory::release(std::byte* block, std::size_t bytes, Device device, MemoryPurpose purpose) noexcept {
  const std::lock_guard lock(mutex_);
  if (bytes <= kSmallBlock) std::free(block);
  count(usage_of(device), purpose, -block_bytes(bytes, device));
}

void DryMemory::recount(std::size_t bytes, Device device, MemoryPurpose from, MemoryPurpose to) noexcept {
  const std::lock_guard lock(mutex_);
  count(usage_of(device), from, -block_bytes(bytes, device));
  count(usage_of(device), to, block_bytes(bytes, device));
}

DryUsage DryMemory::usage(Device device) const {
  const std::lock_guard lock(mutex_);
  return usage_[device == kCpu ? 0 : 1];
}

void DryMemory::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (DryUsage& usage : usage_) usage.stats.reset_peaks();
}

DryRunScope::DryRunScope() : outer_(std::exchange(current_, this)), memory_(std::make_shared<DryMemory>()) {}

DryRunScope::~DryRunScope() {
  current_ = outer_;
}

void DryRunScope::keep_workspace(const std::string& owner, std::size_t bytes, Device device) {
  std::shared_ptr<Storage>& kept = kept_[owner];
  if (kept == nullptr) kept = Storage::allocate(bytes, device, MemoryPurpose::kWorkspace);
}

void count_workspace(std::size_t bytes, Device device) {
  if (bytes > 0) Storage::allocate(bytes, device, MemoryPurpose::kWorkspace);
}

}  // namespace moh
