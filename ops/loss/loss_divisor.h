#pragma once

#include <string_view>
#include <utility>

#include "core/tensor.h"
#include "ops/loss/divisor.h"

namespace moh {

/// The divisor of a sum of losses: a number, or, for captured steps, a float64 scalar on the GPU of the
/// logits, whose value counts when a kernel reads it.
class LossDivisor {
 public:
  // NOLINTNEXTLINE: options name a number
  LossDivisor(double value) : value_(value) {}
  explicit LossDivisor(Tensor on_device) : on_device_(std::move(on_device)) {}

  /// For the kernels of an op on `device`. Throws ValueError for a number that is not positive.
  Divisor divisor(std::string_view op, Device device) const;

 private:
  double value_ = 1;
  Tensor on_device_;
};

}  // namespace moh
