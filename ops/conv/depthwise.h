#pragma once

#include "autograd/variable.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// conv2d where each output reads one channel, its own (shape.is_depthwise()); `shape` is that of
/// conv_shape(), which has checked the operands.
Variable depthwise_conv2d(const Variable& x, const Variable& w, const Variable& b, const ConvShape& shape);

}  // namespace moh
