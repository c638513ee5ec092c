#include "train/trainer/task/data/index_permutation.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace moh {

namespace {

// Four rounds are indistinguishable from random on large domains (Luby & Rackoff 1988), but not on small
// ones. With eight rounds and halves of at least three bits the images of three indices show no deviation
// from uniform in 40000 keys for any size from 3 to 17; with halves of two bits they do (24 standard
// deviations for size 4, and more rounds do not help).
constexpr std::uint64_t kRounds = 8;
constexpr int kMinHalfBits = 3;

}  // namespace

IndexPermutation::IndexPermutation(std::int64_t size, RandomKey key)
    : size_(static_cast<std::uint64_t>(size)), key_(key) {
  MOH_CHECK(size >= 1 && size <= std::int64_t{1} << 62, "IndexPermutation: size must be 1 ... 2^62");
  half_bits_ = std::max(kMinHalfBits, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2);
}

std::int64_t IndexPermutation::operator()(std::int64_t index) const {
  MOH_DCHECK(index >= 0 && static_cast<std::uint64_t>(index) < size_, "IndexPermutation: index out of range");
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t IndexPermutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = philox(key_.seed, round << 32 | right, key_.stream)[0];
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace moh
