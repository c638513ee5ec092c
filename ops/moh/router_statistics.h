#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// Means over N tokens that show how a router decides, as [2] in the dtype of the logits:
///   [0] the second of softmax(type_logits): the share of the weight that the two-stage router gives to
///       routed heads; 0 without type_logits;
///   [1] the margin z_k - z_r of the last kept head k, top[n, K - 1], over the first refused one r: the
///       largest of those that come after k, logits first and numbers where logits are equal; 0 without
///       routed_logits, and for tokens whose router refuses none. With `groups` (RouterOptions) the mean of
///       the margins that the groups have by themselves.
/// routed_logits [N, E], type_logits [N, 2] are float32 or float64, either may be undefined; top [N, K] int32
/// is that of route_heads. Without tokens both are 0. Not differentiable. Throws ShapeError, DTypeError,
/// DeviceError.
Tensor router_statistics(const Tensor& routed_logits, const Tensor& type_logits, const Tensor& top,
                         std::int64_t groups = 1);

}  // namespace moh
