#pragma once

#include <cstdint>

#include "core/random.h"

namespace moh {

/// The random numbers of one sample, in a fixed order: number n is a function of (key, first index, n).
class Draws {
 public:
  /// Samples must be at least kPerSample indices apart.
  static constexpr std::uint64_t kPerSample = std::uint64_t{1} << 24;

  explicit Draws(RandomKey key, std::uint64_t first_index = 0) : key_(key), next_(first_index) {}

  /// From [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(below(std::uint64_t{1} << 53)) * 0x1p-53; }
  /// From [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// An integer from [0, bound), bound > 0.
  std::uint64_t below(std::uint64_t bound) { return random_below(key_, next_++, bound); }
  /// An integer from [0, last].
  int up_to(int last) { return static_cast<int>(below(static_cast<std::uint64_t>(last) + 1)); }
  bool chance(double probability) { return uniform() < probability; }
  /// Standard normal.
  double normal() { return random_normal(key_, next_++); }

  RandomKey key() const { return key_; }
  /// Index of the next number, for callers that draw many of them at once.
  std::uint64_t next_index() const { return next_; }

 private:
  RandomKey key_;
  std::uint64_t next_;
};

}  // namespace moh
