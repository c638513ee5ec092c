#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// The loads of a layer's routed heads in each micro-batch of a step.
struct StepLoadRows {
  /// [M, W] float64, a row for each of M micro-batches of equal size, in which the load of routed head 0 is
  /// at column `first`.
  Tensor rows;
  std::int64_t first = 0;
};

/// The update of loss-free balancing (Wang et al. 2024, arXiv 2408.15664, algorithm 1), after a step:
///   b_i += rate sign(mean_j c_j - c_i),  c_i = sum over the micro-batches of the load of head i.
/// The mean is over the heads of i's group, of `groups` of equal size (RouterOptions); a difference below
/// 1e-6 of it, which may be rounding, counts as none. The bias b [E], which is updated in place, is float32
/// or float64; 0 <= rate <= 1. With `go`, a scalar of float64, nothing happens if it is 0. All tensors are on
/// one device; the host does not wait, and each update enqueues the same work, so that it can be part of a
/// CUDA graph. Not differentiable. Throws ShapeError, DTypeError, DeviceError, ValueError.
void update_balance_bias(const Tensor& bias, const StepLoadRows& loads, std::int64_t groups, double rate,
                         const Tensor& go = {});

}  // namespace moh
