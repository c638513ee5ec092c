#pragma once

#include <cstdint>

#include "core/random.h"

namespace moh {

/// A random permutation of 0 ... size - 1 that is computed index by index without a table, so that any
/// position in any epoch is found in constant time. A balanced Feistel network over an even number of bits,
/// with Philox as round function; results of `size` or more are encrypted again until they are smaller (cycle
/// walking: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains"), which takes fewer than four
/// rounds on average from 17 indices on.
class IndexPermutation {
 public:
  /// The permutation is a function of key and size. 1 <= size <= 2^62.
  IndexPermutation(std::int64_t size, RandomKey key);

  /// The image of `index`, 0 <= index < size.
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  RandomKey key_;
  int half_bits_;
};

}  // namespace moh
