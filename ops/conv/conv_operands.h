#pragma once

#include "ops/conv/conv2d.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Checks the operands of conv2d. Throws ShapeError, DTypeError, DeviceError, ValueError.
ConvShape conv_shape(const Variable& x, const Variable& w, const Variable& b, const Conv2dOptions& options);

/// Shape of the result.
Shape output_shape(const ConvShape& shape);

/// Transposes a tensor of batch * rows * columns elements from [batch, rows, columns] to
/// [batch, columns, rows].
Tensor swap_axes(const Tensor& x, std::int64_t batch, std::int64_t rows, std::int64_t columns);

/// The weight [C, 1, kh, kw] of a depthwise convolution as [kh, kw, C], in the accumulation dtype.
Tensor depthwise_taps(const Tensor& w, const ConvShape& shape);

}  // namespace moh
