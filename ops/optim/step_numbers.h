#pragma once

#include <cstdint>

namespace moh {

/// Numbers of a step for one parameter, in memory of its device: an AdamWCoefficients and an AdamWRate of its
/// accumulation dtype (ops/optim/adamw_kernels.h). If `go` is not null and *go is 0, nothing is changed.
struct StepNumbers {
  const void* coefficients = nullptr;
  const void* rate = nullptr;
  const std::int32_t* go = nullptr;
};

}  // namespace moh
