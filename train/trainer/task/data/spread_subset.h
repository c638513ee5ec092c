#pragma once

#include <algorithm>
#include <cstdint>

namespace moh {

/// The subset of `total` things that a bounded evaluation looks at: `most` of them, spread evenly over all
/// from the first one on; all for `most` 0. A function of the two numbers alone, so that runs with other
/// batch sizes or numbers of processes look at the same ones.
class SpreadSubset {
 public:
  SpreadSubset(std::int64_t total, std::int64_t most)
      : total_(total), size_(most > 0 ? std::min(most, total) : total) {}

  std::int64_t total() const { return total_; }
  std::int64_t size() const { return size_; }
  bool is_whole() const { return size_ == total_; }
  /// The number among all of the subset's number `index`, from 0 to below size().
  std::int64_t at(std::int64_t index) const {
    // In 128 bits: the product of two counts may have more than 64.
    __extension__ using Wide = __int128;
    return is_whole() ? index : static_cast<std::int64_t>(Wide{index} * total_ / size_);
  }

 private:
  std::int64_t total_, size_;
};

}  // namespace moh
