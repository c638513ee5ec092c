#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace moh::sim {

/// An asynchronous copy of 16 bytes into shared memory, or of zeros in place of them.
struct AsyncCopy {
  void* shared;
  const void* from;
  bool real;

  void make() const {
    if (real) {
      std::memcpy(shared, from, 16);
    } else {
      std::memset(shared, 0, 16);
    }
  }
};

/// The copies of a thread that happen when they are waited for, in groups.
class LateCopies {
 public:
  void add(const AsyncCopy& copy) { copies_.push_back(copy); }
  void end_group() { ends_.push_back(copies_.size()); }
  /// Makes the copies of all groups but the last `left`.
  void make_all_but(std::size_t left) {
    if (ends_.size() <= left) return;
    const std::size_t groups = ends_.size() - left, count = ends_[groups - 1];
    for (std::size_t i = 0; i < count; ++i) copies_[i].make();
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(count));
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(groups));
    for (std::size_t& end : ends_) end -= count;
  }

 private:
  std::vector<AsyncCopy> copies_;  // in the order in which they were issued
  std::vector<std::size_t> ends_;  // of the groups, as numbers of copies
};

}  // namespace moh::sim
