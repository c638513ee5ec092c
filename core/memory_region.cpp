#include "core/memory_region.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

#include "core/block_size.h"

namespace moh {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallestRegion = std::size_t{64} << 20;
/// Under a limit on address space: what is reserved at once, and where the first part should lie, with room
/// behind it. That is a wish: the system takes another place if need be.
constexpr std::size_t kPart = std::size_t{16} << 20, kFirstPart = std::size_t{1} << 45;

bool address_space_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

std::size_t address_of(const void* place) {
  return reinterpret_cast<std::uintptr_t>(place);
}

void* at_address(std::size_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): of a reserved range
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

MemoryRegion::MemoryRegion()
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), limited_(address_space_is_limited()) {
  if (limited_) return;
  // The system may grant less than there is: halve until it does.
  std::size_t bytes = round_up(static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_, kHugePage);
  while (bytes >= kSmallestRegion && !reserve(bytes)) bytes = round_up(bytes / 2, kHugePage);
}

MemoryRegion::~MemoryRegion() {
  for (const Mapping& mapping : mappings_) munmap(mapping.begin, mapping.bytes);
}

/// Adds vacant address space that begins at a huge page; false when the system refuses.
bool MemoryRegion::reserve(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  mappings_.reserve(mappings_.size() + 1);
  void* const begin =
      mmap(at_address(next_part()), mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return false;
  // Address space that the alignment leaves over goes back: it counts against a limit.
  const std::size_t first = address_of(begin), aligned = round_up(first, kHugePage);
  if (aligned > first) munmap(begin, aligned - first);
  if (const std::size_t rest = first + mapped - (aligned + bytes); rest > 0)
    munmap(at_address(aligned + bytes), rest);
  mappings_.push_back({at_address(aligned), bytes});
  vacant_.add(aligned, bytes);
  // A hint: where it is refused, ordinary pages work as well, only slower.
  madvise(at_address(aligned), bytes, MADV_HUGEPAGE);
  return true;
}

/// Where the next part should lie: behind the one before, so that they are one range.
std::size_t MemoryRegion::next_part() const {
  if (!limited_) return 0;
  return mappings_.empty() ? kFirstPart : address_of(mappings_.back().begin) + mappings_.back().bytes;
}

/// Bytes free or vacant at the end of the last part, which the next part makes longer.
std::size_t MemoryRegion::open_end() const {
  std::size_t end = next_part(), bytes = 0;
  for (const Stretches* stretches : {&vacant_, &free_}) {
    const auto last = stretches->before(end);
    if (last == stretches->end()) continue;
    bytes += last->second;
    end = last->first;
  }
  return bytes;
}

/// Under a limit: grows by more address space, which is to serve other pieces, too; if there is not as much,
/// by what this one lacks; and if that did not come to lie at the end, by all of it.
bool MemoryRegion::reserve_and_grow(std::size_t bytes) {
  if (!limited_ || bytes > std::numeric_limits<std::size_t>::max() / 2) return false;
  const std::size_t lacking = round_up(bytes - std::min(bytes, open_end()), kHugePage);
  for (const std::size_t part : {std::max(kPart, lacking), lacking, round_up(bytes, kHugePage)}) {
    if (part > 0 && reserve(part) && grow(bytes)) return true;
  }
  return false;
}

void* MemoryRegion::take(std::size_t bytes) {
  auto found = free_.smallest_of(bytes);
  if (found == free_.end()) {
    if (!grow(bytes) && !reserve_and_grow(bytes)) return nullptr;
    found = free_.smallest_of(bytes);
  }
  const auto [offset, size] = *found;
  free_.remove(found);
  if (size > bytes) free_.add(offset + bytes, size - bytes);
  return at_address(offset);
}

void MemoryRegion::give_back(void* piece, std::size_t bytes) noexcept {
  try {
    free_.add(address_of(piece), bytes);
  } catch (const std::bad_alloc&) {
    // No memory for the entry: return the piece's memory to the system and leak its address space.
    madvise(piece, bytes, MADV_DONTNEED);
    backed_ -= bytes;
  }
}

void MemoryRegion::trim() {
  for (const auto& [offset, bytes] : free_) {
    madvise(at_address(offset), bytes, MADV_DONTNEED);
    mprotect(at_address(offset), bytes, PROT_NONE);
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
  if (mprotect(at_address(offset), bytes, PROT_READ | PROT_WRITE) != 0) return false;
  vacant_.remove(vacant);
  if (size > bytes) vacant_.add(offset + bytes, size - bytes);
  free_.add(offset, bytes);
  backed_ += bytes;
  ++growths_;
  return true;
}

}  // namespace moh
