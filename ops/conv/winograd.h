#pragma once

#include "core/tensor.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Whether conv2d on the CPU multiplies tiles transformed by Winograd's F(2 x 2, 3 x 3): a dense 3 x 3 kernel
/// of stride 1 over many channels, in float32 or bfloat16. 2.25 times fewer multiplications; the rounding
/// error of the result and of the gradient of the input is up to twice that of a sum of products, that of the
/// gradient of the weights up to six times (root mean square, 1.5e-6 of the gradient's at most;
/// docs/benchmarks/cpu.md). float64 always takes the sum.
bool uses_winograd(const ConvShape& shape, DType dtype);

/// y = b + the convolution of x by w [channels, 9, outputs] in float32; b may be undefined.
void winograd_convolve(const ConvShape& shape, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y);

/// The gradient of w as [outputs, 9, channels], in float32.
Tensor winograd_weight_gradient(const ConvShape& shape, const Tensor& x, const Tensor& dy);

}  // namespace moh
