#include "train/families/language/data/mixture_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace moh {

namespace {

// A random stream of its own, beside those of the data order (token_batch.cpp).
constexpr std::uint64_t kMixtureStream = std::uint64_t{3} << 54;
constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
constexpr std::uint64_t kGoldenRatio = 0x9E3779B9;  // its fractional part in units of 2^-32; odd

/// The sum of floor((factor i + shift) / modulus) for i = 0 ... count - 1, modulo 2^64. count, factor and
/// modulus are at most 2^32, shift is below 2^33.
std::uint64_t sum_of_floors(std::uint64_t count, std::uint64_t modulus, std::uint64_t factor,
                            std::uint64_t shift) {
  std::uint64_t sum = 0;
  while (count > 0) {
    const std::uint64_t pairs = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
    sum += pairs * (factor / modulus) + count * (shift / modulus);
    factor %= modulus;
    shift %= modulus;
    // The lattice points below the line, counted along the other axis.
    const std::uint64_t top = factor * count + shift;
    count = top / modulus;
    shift = top % modulus;
    std::swap(factor, modulus);
  }
  return sum;
}

}  // namespace

MixtureSchedule::MixtureSchedule(std::span<const double> weights, std::uint64_t seed)
    : offset_(random_below({seed, kMixtureStream}, 0, kOne)) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0;
  for (const double weight : weights) {
    before += weight;
    const double end = std::round(before / total * static_cast<double>(kOne));
    if (!(weight > 0 && std::isfinite(total) &&
          end > (ends_.empty() ? 0.0 : static_cast<double>(ends_.back()))))
      throw ValueError(error_message("mixture", "weight", "a number above 0, not vanishing beside the others",
                                     std::to_string(weight)));
    ends_.push_back(std::min(kOne, static_cast<std::uint64_t>(end)));
  }
  if (weights.empty()) throw ValueError(error_message("mixture", "weights", "at least one", "none"));
  ends_.back() = kOne;
}

MixtureSchedule::Row MixtureSchedule::at(std::int64_t sample) const {
  MOH_CHECK(sample >= 0, "MixtureSchedule: negative sample");
  const std::uint64_t point = (kGoldenRatio * static_cast<std::uint64_t>(sample) + offset_) % kOne;
  const auto source =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), point) - ends_.begin());
  return {source, count(source, sample)};
}

std::int64_t MixtureSchedule::count(std::size_t source, std::int64_t samples) const {
  return count_below(ends_.at(source), samples) - (source == 0 ? 0 : count_below(ends_[source - 1], samples));
}

std::int64_t MixtureSchedule::count_below(std::uint64_t end, std::int64_t samples) const {
  const auto rows = static_cast<std::uint64_t>(samples);
  const std::uint64_t periods = rows / kOne, rest = rows % kOne;  // a period has each point once
  // A point x mod 1 lies before `end` where floor(x) - floor(x + 1 - end) + 1 is 1.
  const std::uint64_t below = sum_of_floors(rest, kOne, kGoldenRatio, offset_) + rest -
                              sum_of_floors(rest, kOne, kGoldenRatio, offset_ + kOne - end);
  return static_cast<std::int64_t>(periods * end + below);
}

}  // namespace moh
