#include "core/memory_region.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <new>

namespace moh {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallestRegion = std::size_t{64} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

/// The machine's memory in bytes; with a limit on address space (`ulimit -v`), at most three quarters of what
/// is left below it, since stacks, libraries and small blocks need address space, too.
std::size_t reservable_bytes(std::size_t page) {
  const std::size_t memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return memory;
  std::size_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;  // total program size; 0 if there is no such file
  const std::size_t used = std::min<std::size_t>(used_pages * page, limit.rlim_cur);
  return std::min<std::size_t>(memory, (limit.rlim_cur - used) / 4 * 3);
}

}  // namespace

void Stretches::add(std::size_t offset, std::size_t bytes) {
  const auto next = at(offset + bytes);
  if (next != end()) bytes += next->second;
  const auto previous = before(offset);
  if (previous != end()) {
    offset = previous->first;
    bytes += previous->second;
  }
  // The allocations that may throw come first, so that nothing has changed then.
  const auto entry = by_size_.emplace(bytes, offset).first;
  if (previous != end()) {
    by_size_.erase({previous->second, previous->first});
    by_offset_[offset] = bytes;
  } else {
    try {
      by_offset_.emplace(offset, bytes);
    } catch (const std::bad_alloc&) {
      by_size_.erase(entry);
      throw;
    }
  }
  if (next != end()) remove(next);
}

void Stretches::remove(Map::const_iterator stretch) {
  by_size_.erase({stretch->second, stretch->first});
  by_offset_.erase(stretch);
}

void Stretches::clear() {
  by_offset_.clear();
  by_size_.clear();
}

Stretches::Map::const_iterator Stretches::smallest_of(std::size_t bytes) const {
  const auto found = by_size_.lower_bound({bytes, 0});
  return found == by_size_.end() ? end() : at(found->second);
}

Stretches::Map::const_iterator Stretches::before(std::size_t offset) const {
  auto found = by_offset_.lower_bound(offset);
  if (found == by_offset_.begin()) return end();
  --found;
  return found->first + found->second == offset ? found : end();
}

MemoryRegion::MemoryRegion() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  // The system may grant less than the limit: halve until it does.
  for (std::size_t bytes = round_up(reservable_bytes(page_), kHugePage); bytes >= kSmallestRegion;
       bytes = round_up(bytes / 2, kHugePage)) {
    mapping_bytes_ = bytes + kHugePage;
    mapping_ = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    base_ = static_cast<std::byte*>(mapping_) + (round_up(address, kHugePage) - address);
    vacant_.add(0, bytes);
    // A hint: where it is refused, ordinary pages work as well, only slower.
    madvise(base_, bytes, MADV_HUGEPAGE);
    return;
  }
  mapping_ = nullptr;
}

MemoryRegion::~MemoryRegion() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

void* MemoryRegion::take(std::size_t bytes) {
  auto found = free_.smallest_of(bytes);
  if (found == free_.end()) {
    if (!grow(bytes)) return nullptr;
    found = free_.smallest_of(bytes);
  }
  const auto [offset, size] = *found;
  free_.remove(found);
  if (size > bytes) free_.add(offset + bytes, size - bytes);
  return base_ + offset;
}

void MemoryRegion::give_back(void* piece, std::size_t bytes) noexcept {
  try {
    free_.add(static_cast<std::size_t>(static_cast<std::byte*>(piece) - base_), bytes);
  } catch (const std::bad_alloc&) {
    // No memory for the entry: return the piece's memory to the system and leak its address space.
    madvise(piece, bytes, MADV_DONTNEED);
    backed_ -= bytes;
  }
}

void MemoryRegion::trim() {
  for (const auto& [offset, bytes] : free_) {
    madvise(base_ + offset, bytes, MADV_DONTNEED);
    mprotect(base_ + offset, bytes, PROT_NONE);
    vacant_.add(offset, bytes);
    backed_ -= bytes;
  }
  free_.clear();
}

/// Makes a free range of at least `bytes`, from the lowest vacant one that is long enough together with the
/// free one before it. Returns false when there is none.
bool MemoryRegion::grow(std::size_t bytes) {
  for (auto vacant = vacant_.begin(); vacant != vacant_.end(); ++vacant) {
    const auto [offset, size] = *vacant;
    const auto previous = free_.before(offset);
    const std::size_t kept = previous == free_.end() ? 0 : previous->second;
    if (kept + size < bytes) continue;
    // Whole huge pages: a part of one would stay backed by small pages.
    const std::size_t wanted = std::min(size, round_up(offset + bytes - kept, kHugePage) - offset);
    return back(vacant, wanted) || back(vacant, bytes - kept);
  }
  return false;
}

/// Backs the first `bytes` of a vacant range with memory; false when the system refuses.
bool MemoryRegion::back(Stretches::Map::const_iterator vacant, std::size_t bytes) {
  const auto [offset, size] = *vacant;
  if (mprotect(base_ + offset, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  vacant_.remove(vacant);
  if (size > bytes) vacant_.add(offset + bytes, size - bytes);
  free_.add(offset, bytes);
  backed_ += bytes;
  ++growths_;
  return true;
}

}  // namespace moh
