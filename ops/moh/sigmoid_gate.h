#pragma once

#include "autograd/variable.h"

namespace moh {

/// Gated attention (arXiv 2505.06708): y[..., h, j] = sigmoid(z) * x[..., h, j], where z is logits[..., h]
/// for a gate per head, or logits[..., h d + j] for one per element. x [..., H, d]; logits [..., H] or [...,
/// H d], the form follows from the shape, and with d = 1 both are one. One floating dtype and device. Returns
/// the shape of x. With s = sigmoid(z), dx = s dy and dz = s (1 - s) <dy, x>, over the elements that share z.
/// Arithmetic in float32 (float64 for float64). Saves both. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable sigmoid_gate(const Variable& x, const Variable& logits);

}  // namespace moh
