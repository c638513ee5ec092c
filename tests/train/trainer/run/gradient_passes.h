#pragma once

#include <cstdint>
#include <string>

#include "autograd/variable.h"
#include "core/error.h"
#include "train/trainer/run/gradient_sums.h"

namespace moh::test {

inline constexpr std::int64_t kGradientElements = 1000;

/// A leaf of ones.
inline Variable parameter_of_ones(DType dtype = DType::kFloat32) {
  return Variable(full({kGradientElements}, 1.0, dtype), /*requires_grad=*/true);
}

/// A backward pass from the sum of `y`.
inline void run_pass(GradientSums& sums, bool is_last, const Variable& y) {
  sums.expect_pass(is_last);
  y.backward(full(y.shape(), 1.0, y.dtype()));
  sums.finish_pass(is_last);
}

/// Throws ValueError with the first element that is another one.
inline void require_all(const Tensor& elements, float value) {
  const Tensor wide = elements.to(DType::kFloat32);
  for (const float element : wide.span<float>()) {
    if (element != value) throw ValueError(std::to_string(element) + " for " + std::to_string(value));
  }
}

}  // namespace moh::test
