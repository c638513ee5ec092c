#pragma once

#include <cmath>
#include <numbers>

#include "ops/activation/gelu.h"

namespace moh::test {

/// gelu as its definition has it.
inline double gelu_of(double x, GeluForm form) {
  if (form == GeluForm::kExact) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace moh::test
