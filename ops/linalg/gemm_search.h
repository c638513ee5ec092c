#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace moh {

/// The result of a search; seconds are the shortest of the rounds, without the run to warm up.
struct Fastest {
  std::size_t candidate = 0;
  double seconds = 0;
  double first_seconds = 0;  ///< of the first candidate that runs
};

/// The candidate in [0, count) with the shortest time, the first of equal ones; none if all fail.
/// `time(i)` runs candidate i and returns its time in seconds, or nothing if it fails. Each runs once to
/// warm up and then `rounds` times, round-robin, so that changes of the GPU's clock do not favour one; its
/// shortest time counts.
template <class Time>
std::optional<Fastest> fastest_of(std::size_t count, int rounds, const Time& time) {
  constexpr double kRefused = std::numeric_limits<double>::infinity();
  std::vector<double> shortest(count, kRefused);
  std::vector<bool> runs(count);
  for (std::size_t i = 0; i < count; ++i) runs[i] = time(i).has_value();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (runs[i]) shortest[i] = std::min(shortest[i], time(i).value_or(kRefused));
    }
  }
  const auto first =
      std::find_if(shortest.begin(), shortest.end(), [](double seconds) { return seconds < kRefused; });
  if (first == shortest.end()) return std::nullopt;
  const auto best = std::min_element(first, shortest.end());
  return Fastest{static_cast<std::size_t>(best - shortest.begin()), *best, *first};
}

}  // namespace moh
