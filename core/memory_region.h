#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace moh {

/// Stretches of memory that do not touch each other: what is added next to one becomes part of it.
class Stretches {
 public:
  using Map = std::map<std::size_t, std::size_t>;  // from offset to bytes

  /// Changes nothing when it throws std::bad_alloc.
  void add(std::size_t offset, std::size_t bytes);
  void remove(Map::const_iterator stretch);
  void clear();

  /// The smallest that holds `bytes`, the lowest of several; end() if there is none.
  Map::const_iterator smallest_of(std::size_t bytes) const;
  /// The one that ends at `offset`; end() if there is none.
  Map::const_iterator before(std::size_t offset) const;
  Map::const_iterator at(std::size_t offset) const { return by_offset_.find(offset); }
  Map::const_iterator begin() const { return by_offset_.begin(); }
  Map::const_iterator end() const { return by_offset_.end(); }

 private:
  Map by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // (bytes, offset)
};

/// Address space as large as the machine's memory (less under a limit on address space), of which no more is backed by memory than is in use:
/// pieces are cut from the smallest free stretch that holds them and join their free neighbours when they
/// come back, so that what one phase of a step leaves serves the next, whatever the sizes. Not thread-safe.
class MemoryRegion {
 public:
  MemoryRegion();
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// Sizes of pieces are multiples of this.
  std::size_t page_bytes() const { return page_; }

  /// A piece of `bytes`, aligned to a page, contents undefined; null when the system has no more.
  void* take(std::size_t bytes);
  /// Takes back a piece of take(bytes), also when there is no memory left to remember it.
  void give_back(void* piece, std::size_t bytes) noexcept;
  /// Returns the memory of all free stretches to the system.
  void trim();

  std::size_t backed_bytes() const { return backed_; }  ///< pieces handed out, and free stretches kept
  std::int64_t growths() const { return growths_; }     ///< times that the system was asked for memory

 private:
  bool grow(std::size_t bytes);
  bool back(Stretches::Map::const_iterator vacant, std::size_t bytes);

  std::byte* base_ = nullptr;
  std::size_t page_ = 0;
  Stretches free_;    // backed by memory
  Stretches vacant_;  // address space alone
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t backed_ = 0;
  std::int64_t growths_ = 0;
};

}  // namespace moh
