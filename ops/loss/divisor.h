#pragma once

namespace moh {

/// The divisor of a sum of losses in kernels: `value`, or the number in device memory, which a captured step
/// reads anew in each launch, over `over`.
struct Divisor {
  double value = 1;
  const double* on_device = nullptr;
  double over = 1;
};

}  // namespace moh
