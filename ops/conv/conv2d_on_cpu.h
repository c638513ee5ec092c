#pragma once

#include "core/tensor.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// A weight as [O, taps, C / groups], the order of elements in a patch.
Tensor like_patches(const Tensor& w, const ConvShape& shape);

/// The passes of conv2d on the CPU, for shapes that are not depthwise. Tensors are those of conv2d; b may be
/// undefined.
void conv2d_forward_on_cpu(const ConvShape& shape, const Tensor& x, const Tensor& w, const Tensor& b,
                           const Tensor& y);
Tensor conv2d_data_gradient_on_cpu(const ConvShape& shape, const Shape& x_shape, const Tensor& w,
                                   const Tensor& dy);
/// In the accumulation dtype, shaped as the weight.
Tensor conv2d_weight_gradient_on_cpu(const ConvShape& shape, const Tensor& x, const Tensor& dy,
                                     const Shape& w_shape);

}  // namespace moh
