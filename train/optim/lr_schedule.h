#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace moh {

/// The learning rate as a function of the number of finished optimiser steps t (or epochs, where a recipe
/// counts so):
///   t < warmup_steps:  warmup_start + t (peak - warmup_start) / warmup_steps
///   then               peak (kConstant), or down a half cosine to `minimum`, which is kept from
///                      t = decay_steps on:
///                      minimum + (peak - minimum) (1 + cos(pi u)) / 2
///                      u = (t - warmup_steps) / (decay_steps - warmup_steps) (kCosine), or t / decay_steps
///                      (kCosineFromStart, as timm does: the cosine counts the warmup, and the rate steps
///                      down a little where that ends)
/// A run's configuration lets a warmup_start of 0 stand for peak / warmup_steps: a step with a rate of 0 is
/// lost.
struct LrSchedule {
  enum class Kind { kCosine, kConstant, kCosineFromStart };

  Kind kind = Kind::kCosine;
  double peak = 1e-3;
  double minimum = 0;
  double warmup_start = 0;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 0;  ///< a run's configuration lets 0 stand for its number of steps

  double at(std::int64_t t) const;

  bool operator==(const LrSchedule&) const = default;
};

inline double LrSchedule::at(std::int64_t t) const {
  if (t < warmup_steps) {
    return warmup_start + static_cast<double>(t) * (peak - warmup_start) / static_cast<double>(warmup_steps);
  }
  if (kind == Kind::kConstant) return peak;
  if (t >= decay_steps) return minimum;
  const std::int64_t start = kind == Kind::kCosine ? warmup_steps : 0;
  const double u = static_cast<double>(t - start) / static_cast<double>(decay_steps - start);
  return minimum + 0.5 * (peak - minimum) * (1.0 + std::cos(std::numbers::pi * u));
}

}  // namespace moh
