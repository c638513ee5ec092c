#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "train/tasks/language/generate/generate_options.h"

namespace moh {

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
