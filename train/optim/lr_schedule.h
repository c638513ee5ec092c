#pragma once

#include <cstdint>

namespace moh {

/// The learning rate as a function of the number of finished optimiser steps t (or epochs, where a recipe
/// counts so):
///   t < warmup:  warmup_start + t (peak - warmup_start) / warmup
///   then         peak (kConstant), or down a half cosine to `minimum`, which is kept from t = decay on:
///                minimum + (peak - minimum) (1 + cos(pi u)) / 2
///                u = (t - warmup) / (decay - warmup) (kCosine), or t / decay (kCosineFromStart, as timm
///                does: the cosine counts the warm-up, and the rate steps down a little where that ends)
struct LrSchedule {
  enum class Kind { kConstant, kCosine, kCosineFromStart };

  Kind kind = Kind::kCosine;
  double peak = 0.0;
  double minimum = 0.0;
  double warmup_start = 0.0;
  std::int64_t warmup = 0;
  std::int64_t decay = 0;

  double at(std::int64_t t) const;
};

}  // namespace moh
