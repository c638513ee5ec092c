#pragma once

#include <cstdint>

#include "core/random.h"

namespace moh {

/// A random permutation of 0 ... size - 1 that is computed index by index and stores nothing, so that any
/// place in any epoch is found in constant time. A balanced Feistel network over an even number of bits that
/// holds the indices, Philox as the round function; a value past the end goes through the network again until
/// it falls inside (cycle walking: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains"), fewer than
/// four times on average from 17 indices on.
class IndexPermutation {
 public:
  /// The permutation is a function of key and size. 1 <= size <= 2^62.
  IndexPermutation(std::int64_t size, RandomKey key);

  /// Where `index` of [0, size) goes.
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  RandomKey key_;
  int half_bits_;
};

}  // namespace moh
