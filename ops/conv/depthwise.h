#pragma once

#include "autograd/variable.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// conv2d where each output sees one channel, its own (shape.is_depthwise()), of operands that conv_shape()
/// took.
Variable depthwise_conv2d(const Variable& x, const Variable& w, const Variable& b, const ConvShape& shape);

}  // namespace moh
