#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moh {

/// Says which source each training row is of, so that every stretch of rows, wherever it begins, has each
/// source in proportion to its weight: off by a few rows at most (fewer than 10 of 10,000). Row g is that of
/// the source whose interval holds the fractional part of g phi + offset, where phi is the golden ratio, the
/// intervals are as long as the shares, and the offset is drawn with the seed: the points of a Weyl sequence
/// with this factor are spread as evenly as those of any (Niederreiter 1992, "Random Number Generation and
/// Quasi-Monte Carlo Methods", chapter 3). Fractions are multiples of 2^-32, so that all of it is exact;
/// after 2^32 rows the sequence repeats. How many rows of a source precede a row is a sum of floors, which
/// Euclid's algorithm adds up: any row is found in constant time.
class MixtureSchedule {
 public:
  /// Throws ValueError unless there are weights, each finite and at least 2^-32 of their sum.
  MixtureSchedule(std::span<const double> weights, std::uint64_t seed);

  struct Row {
    std::size_t source;
    std::int64_t index;  ///< number of rows of the source before it
  };
  /// sample >= 0.
  Row at(std::int64_t sample) const;

  /// Rows of a source among the first `samples` rows.
  std::int64_t count(std::size_t source, std::int64_t samples) const;
  std::size_t num_sources() const { return ends_.size(); }

 private:
  /// The number of the first `samples` rows whose point lies before `end`.
  std::int64_t count_below(std::uint64_t end, std::int64_t samples) const;

  std::uint64_t offset_;
  std::vector<std::uint64_t> ends_;  // of the intervals, in units of 2^-32
};

}  // namespace moh
