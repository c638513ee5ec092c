#pragma once

#include <cstdint>

#include "core/random.h"

namespace moh {

/// Inputs and outputs of head_masks; A is float or double. All arithmetic is in double precision.
template <class A>
struct HeadMaskArgs {
  std::int64_t heads = 0;
  const A* scores = nullptr;    ///< [H]
  double* log_alpha = nullptr;  ///< [H], and
  double* slopes = nullptr;     ///< [H] d mask / d log_alpha: read by the backward pass
  // Forward only.
  const double* count = nullptr;  ///< scalar
  RandomKey key = {};
  A* masks = nullptr;  ///< [H]
  // Backward only.
  const A* d_masks = nullptr;
  A* d_scores = nullptr;
};

/// log_alpha of a head is kMaskSharpness times its score, plus a number that all heads share, within
/// kMaskReach of the largest of them; it is found in kMaskBisections steps.
inline constexpr double kMaskSharpness = 10, kMaskReach = 100;
inline constexpr int kMaskBisections = 80;

/// The CUDA kernels of head_masks, which is a few numbers per layer on the CPU; outputs are overwritten.
template <class Backend, class A>
struct HeadMaskKernels {
  static void forward(const HeadMaskArgs<A>& args);
  static void backward(const HeadMaskArgs<A>& args);
};

}  // namespace moh
