#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace moh {

/// Disjoint, non-adjacent ranges of memory: a range that is added next to another is merged with it.
class Stretches {
 public:
  using Map = std::map<std::size_t, std::size_t>;  // from address to bytes

  /// Strong exception guarantee: unchanged when it throws std::bad_alloc.
  void add(std::size_t offset, std::size_t bytes);
  void remove(Map::const_iterator stretch);
  void clear();

  /// Best fit: the smallest range of at least `bytes`, the lowest of equal ones; end() if there is none.
  Map::const_iterator smallest_of(std::size_t bytes) const;
  /// The range that ends at `offset`; end() if there is none.
  Map::const_iterator before(std::size_t offset) const;
  Map::const_iterator at(std::size_t offset) const { return by_offset_.find(offset); }
  Map::const_iterator begin() const { return by_offset_.begin(); }
  Map::const_iterator end() const { return by_offset_.end(); }

 private:
  Map by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // (bytes, offset)
};

/// Reserves address space as large as the machine's memory and backs only what is in use; under `ulimit -v`
/// it reserves what it needs, part by part, as stacks, libraries and small blocks need address space, too.
/// Pieces are cut from the smallest free range that fits and merged with their free neighbours when they
/// are freed, so that one phase of a step reuses memory of the one before, whatever the sizes. Not
/// thread-safe.
class MemoryRegion {
 public:
  MemoryRegion();
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// Sizes of pieces are multiples of this.
  std::size_t page_bytes() const { return page_; }

  /// A piece of `bytes`, aligned to a page, contents undefined; null when the system has no memory left.
  void* take(std::size_t bytes);
  /// Frees a piece of take(bytes); works even when there is no memory left for the bookkeeping.
  void give_back(void* piece, std::size_t bytes) noexcept;
  /// Returns the memory of all free ranges to the system.
  void trim();

  std::size_t backed_bytes() const { return backed_; }  ///< of allocated pieces and cached free ranges
  std::int64_t growths() const { return growths_; }     ///< number of allocations from the system

 private:
  std::size_t next_part() const;
  bool reserve(std::size_t bytes);
  std::size_t open_end() const;
  bool reserve_and_grow(std::size_t bytes);
  bool grow(std::size_t bytes);
  bool back(Stretches::Map::const_iterator vacant, std::size_t bytes);

  struct Mapping {
    void* begin;
    std::size_t bytes;
  };

  std::size_t page_ = 0;
  bool limited_ = false;  // by `ulimit -v`
  Stretches free_;        // backed by memory
  Stretches vacant_;      // reserved address space without memory
  std::vector<Mapping> mappings_;
  std::size_t backed_ = 0;
  std::int64_t growths_ = 0;
};

}  // namespace moh
