#pragma once

#include "autograd/variable.h"
#include "ops/activation/gelu.h"

namespace moh {

/// y = gelu(x w1^T + b1) w2^T + b2, the MLP of vision transformers: ViT uses exact GELU (Dosovitskiy et al.
/// 2021, arXiv 2010.11929), DiT its tanh approximation (Peebles & Xie 2023, arXiv 2212.09748).
/// x [..., I], w1 [F, I], b1 [F], w2 [O, F], b2 [O], one floating dtype and device; a bias may be undefined.
/// Returns [..., O]. Accumulates in float32 (float64 for float64).
///
/// Saves x and the pre-activation h = x w1^T + b1, in the dtype of x. gelu(h) is not saved: the backward pass
/// recomputes it together with the derivative and overwrites h, which saves one tensor [..., F]. If no
/// gradient needs h, gelu(h) is saved instead; if nothing is recorded, neither is. With `recompute_hidden`
/// neither h nor gelu(h) is kept: the backward pass multiplies x and w1 once more. Throws ShapeError,
/// DTypeError, DeviceError, ValueError.
Variable gelu_mlp(const Variable& x, const Variable& w1, const Variable& b1, const Variable& w2,
                  const Variable& b2, GeluForm form, bool recompute_hidden = false);

}  // namespace moh
