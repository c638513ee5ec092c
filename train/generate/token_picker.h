#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace moh {

/// How the next token is drawn from a model's distribution.
struct PickOptions {
  double temperature = 1.0;  ///< 0: always the most probable token
  std::int64_t top_k = 0;    ///< only the k most probable; 0: all
  double top_p =
      1.0;  ///< only the fewest most probable that together hold this probability (Holtzman et al. 2020)
};

/// Draws tokens; the i-th draw of a sequence is a function of the logits, the options and (key, i).
class TokenPicker {
 public:
  /// Throws ValueError for a negative temperature or top_k, or top_p outside (0, 1].
  TokenPicker(const PickOptions& options, RandomKey key);

  /// One id of [0, logits.size()). NaN logits are never drawn; throws NumericError when nothing else is
  /// there.
  std::int32_t pick(std::span<const float> logits);

 private:
  PickOptions options_;
  RandomKey key_;
  std::uint64_t draws_ = 0;
  std::vector<std::int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace moh
