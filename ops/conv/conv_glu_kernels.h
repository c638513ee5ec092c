#pragma once

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Kernels of conv_glu; shape is that of the depthwise convolution of F channels. h, dh [pixels, 2
/// F], y, z, dy [pixels, F]; w [taps, F] in the accumulation dtype.
template <class Backend, class T>
struct ConvGluKernels {
  /// z = conv(u) + b and y = gelu(z) g; z may be y.
  static void forward(const T* h, const Acc<T>* w, const T* b, T* z, T* y, const ConvShape& shape);
  /// dh, and in place of z its gradient.
  static void backward(const T* dy, const T* h, const Acc<T>* w, T* z, T* dh, const ConvShape& shape);
  /// dw [taps, F] from the gradient of z.
  static void weight_gradient(const T* h, const T* dz, Acc<T>* dw, const ConvShape& shape);
};

}  // namespace moh
