#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace moh {

/// The candidate, of [0, count), with the shortest time; the first of those that are as fast. `time(i)` runs
/// candidate i and returns how long it took, or nothing when it refuses to run. Each runs once to warm up and
/// then `rounds` times, in turns, so that a clock that changes does not favour one; its shortest time counts.
/// None when none runs.
template <class Time>
std::optional<std::size_t> fastest_of(std::size_t count, int rounds, const Time& time) {
  constexpr double kRefused = std::numeric_limits<double>::infinity();
  std::vector<double> shortest(count, kRefused);
  std::vector<bool> runs(count);
  for (std::size_t i = 0; i < count; ++i) runs[i] = time(i).has_value();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (runs[i]) shortest[i] = std::min(shortest[i], time(i).value_or(kRefused));
    }
  }
  const auto best = std::min_element(shortest.begin(), shortest.end());
  if (best == shortest.end() || *best == kRefused) return std::nullopt;
  return static_cast<std::size_t>(best - shortest.begin());
}

}  // namespace moh
