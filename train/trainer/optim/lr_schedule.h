#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace moh {

/// The learning rate as a function of the number of finished optimiser steps t (or epochs, in recipes that
/// count epochs):
///   t < warmup_steps:  warmup_start + t (peak - warmup_start) / warmup_steps
///   then               peak (kConstant), or cosine decay to `minimum`, constant from t = decay_steps on:
///                      minimum + (peak - minimum) (1 + cos(pi u)) / 2
///                      u = (t - warmup_steps) / (decay_steps - warmup_steps) (kCosine), or t / decay_steps
///                      (kCosineFromStart, as in timm: the cosine starts at t = 0, so that the rate drops
///                      a little at the end of the warmup), or
///                      peak sqrt(w / t), w = max(warmup_steps, 1), but at least `minimum` (kInverseSqrt:
///                      Vaswani et al. 2017, section 5.3, and fairseq's inverse_sqrt)
/// In a run's configuration a warmup_start of 0 stands for peak / warmup_steps, as a step with rate 0 is
/// wasted.
struct LrSchedule {
  enum class Kind { kCosine, kConstant, kCosineFromStart, kInverseSqrt };

  Kind kind = Kind::kCosine;
  double peak = 1e-3;
  double minimum = 0;
  double warmup_start = 0;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 0;  ///< in a run's configuration 0 stands for train.steps

  double at(std::int64_t t) const;
  /// Whether it depends on decay_steps.
  bool ends() const { return kind == Kind::kCosine || kind == Kind::kCosineFromStart; }

  bool operator==(const LrSchedule&) const = default;
};

/// The learning rate of each step of a run: of a schedule of steps, or of one of epochs, which sets it once
/// per epoch.
struct StepRates {
  LrSchedule schedule;
  std::int64_t steps_per_epoch = 1;  ///< 1 for a schedule of steps
  /// The rate of an epoch is that of the number before its own, as in the released MoH-ViT, which sets it
  /// when an epoch ends: the first two have that of number 0.
  bool late = false;

  double at(std::int64_t step) const {
    const std::int64_t t = step / steps_per_epoch;
    return schedule.at(late && t > 0 ? t - 1 : t);
  }
};

inline double LrSchedule::at(std::int64_t t) const {
  if (t < warmup_steps) {
    return warmup_start + static_cast<double>(t) * (peak - warmup_start) / static_cast<double>(warmup_steps);
  }
  if (kind == Kind::kConstant) return peak;
  if (const double w = std::fmax(static_cast<double>(warmup_steps), 1); kind == Kind::kInverseSqrt)
    return std::fmax(minimum, peak * std::sqrt(w / std::fmax(static_cast<double>(t), w)));
  if (t >= decay_steps) return minimum;
  const std::int64_t start = kind == Kind::kCosine ? warmup_steps : 0;
  const double u = static_cast<double>(t - start) / static_cast<double>(decay_steps - start);
  return minimum + 0.5 * (peak - minimum) * (1.0 + std::cos(std::numbers::pi * u));
}

}  // namespace moh
