#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "train/config/fields.h"
#include "train/config/number_text.h"
#include "train/config/problems.h"

namespace moh {

/// How much of the held-out data an evaluation looks at: eval.max_tokens, eval.max_pictures. Left open, the
/// evaluations of a training have a bound, so that they do not take longer than the training, and those that
/// are asked for (`moh eval`) look at everything.
struct EvaluationBound {
  std::optional<double> given;  ///< a whole number; 0: all

  /// 0: all. `usual` is the bound of a training that gives none.
  std::int64_t most(bool in_training, std::int64_t usual) const {
    return given ? static_cast<std::int64_t>(*given) : in_training ? usual : 0;
  }
  /// most() during a training, as EvaluationWork has it.
  std::optional<std::int64_t> most_in_training(std::int64_t usual) const {
    const std::int64_t bound = most(true, usual);
    return bound > 0 ? std::optional(bound) : std::nullopt;
  }
};

namespace config {

inline constexpr double kMostEvaluated = 1e15;

/// Refuses a bound under `key` that is no whole number.
inline void check(const EvaluationBound& bound, const std::string& key, Rules& rules) {
  if (bound.given && std::trunc(*bound.given) != *bound.given)
    rules.refuse({key}, "a whole number", number_text(*bound.given));
}

}  // namespace config

/// Bounds of evaluations during a training that gives none: losses of so many tokens are known to about 0.01
/// nats, the accuracy of so many pictures to half a percent.
inline constexpr std::int64_t kUsualEvaluatedTokens = 131'072, kUsualEvaluatedPictures = 10'000;

}  // namespace moh
