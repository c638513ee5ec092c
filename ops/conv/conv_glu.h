#pragma once

#include "autograd/variable.h"

namespace moh {

/// The inner part of the convolutional gated linear unit of TransNeXt (Shi 2023, arXiv 2311.17132,
/// section 3.3), between its two linear maps, in one pass over the image:
///   y = gelu(conv(u) + b) * g, with [u | g] the two halves of the channels of h
/// gelu is exact, conv is depthwise: a kernel of odd sides for each channel, with zeros around the image,
/// which it leaves as large. h [B, H, W, 2 F], w [F, 1, kh, kw], b [F], one floating dtype and device.
/// Returns [B, H, W, F]. Arithmetic in float32 (float64 for float64); the gradients of w and b stay in that
/// dtype. Results have the same bits with any number of threads. Saves h, w and the pre-activation.
/// Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable conv_glu(const Variable& h, const Variable& w, const Variable& b);

}  // namespace moh
