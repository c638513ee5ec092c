#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace moh {

/// The learning rate as a function of the number of finished optimiser steps t (or epochs, in recipes that
/// count epochs): warmup, a part at the peak, and a decay.
///   t < warmup_steps:  warmup_start + t (peak - warmup_start) / warmup_steps
///   then               peak, until the decay begins
///   t >= decay_steps:  minimum
/// In between, with u = (t - begin) / (decay_steps - begin):
///   kCosine            minimum + (peak - minimum) (1 + cos(pi u)) / 2
///   kCosineFromStart   the same with begin = 0, as in timm, so that the rate drops a little at the end of
///   the
///                      warmup
///   kLinear            minimum + (peak - minimum) (1 - u)
///   kSqrt              minimum + (peak - minimum) (1 - sqrt(u)) (Hägele et al. 2024, arXiv 2405.18392)
/// The decay begins with the end of the warmup, or, with cooldown_steps > 0, so many steps before its end:
/// warmup, stable and decay (WSD; Hu et al. 2024, arXiv 2404.06395, section 4). Two kinds do not end:
///   kConstant          peak
///   kInverseSqrt       peak sqrt(w / t), w = max(warmup_steps, 1), but at least `minimum`
///                      (Vaswani et al. 2017, section 5.3, and fairseq's inverse_sqrt)
/// In a run's configuration a warmup_start of 0 stands for peak / warmup_steps, as a step with rate 0 is
/// wasted.
struct LrSchedule {
  enum class Kind { kCosine, kConstant, kCosineFromStart, kInverseSqrt, kLinear, kSqrt };

  Kind kind = Kind::kCosine;
  double peak = 1e-3;
  double minimum = 0;
  double warmup_start = 0;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 0;     ///< in a run's configuration 0 stands for train.steps
  std::int64_t cooldown_steps = 0;  ///< of kCosine, kLinear and kSqrt; 0: all after the warmup

  double at(std::int64_t t) const;
  /// Whether it depends on decay_steps.
  bool ends() const { return kind != Kind::kConstant && kind != Kind::kInverseSqrt; }
  /// Whether its decay may begin later than with the end of the warmup.
  bool has_cooldown() const { return ends() && kind != Kind::kCosineFromStart; }

  bool operator==(const LrSchedule&) const = default;

 private:
  /// The first step of the decay.
  std::int64_t decay_begin() const;
  /// The part of peak - minimum that is left at the part u of the decay.
  double left_at(double u) const;
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

inline std::int64_t LrSchedule::decay_begin() const {
  if (kind == Kind::kCosineFromStart) return 0;
  return cooldown_steps > 0 ? std::max(warmup_steps, decay_steps - cooldown_steps) : warmup_steps;
}

inline double LrSchedule::left_at(double u) const {
  if (kind == Kind::kLinear) return 1.0 - u;
  if (kind == Kind::kSqrt) return 1.0 - std::sqrt(u);
  return 0.5 * (1.0 + std::cos(std::numbers::pi * u));
}

inline double LrSchedule::at(std::int64_t t) const {
  if (t < warmup_steps) {
    return warmup_start + static_cast<double>(t) * (peak - warmup_start) / static_cast<double>(warmup_steps);
  }
  if (kind == Kind::kConstant) return peak;
  if (const double w = std::fmax(static_cast<double>(warmup_steps), 1); kind == Kind::kInverseSqrt)
    return std::fmax(minimum, peak * std::sqrt(w / std::fmax(static_cast<double>(t), w)));
  if (t >= decay_steps) return minimum;
  const std::int64_t begin = decay_begin();
  if (t < begin) return peak;
  const double u = static_cast<double>(t - begin) / static_cast<double>(decay_steps - begin);
  return minimum + (peak - minimum) * left_at(u);
}

}  // namespace moh
