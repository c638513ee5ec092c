#pragma once

#include <string>

#include "core/tensor.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Convolutions on a GPU by cuDNN, with float32 accumulation and deterministic algorithms. Builds without
/// cuDNN link cudnn_convolution_absent.cpp instead. Images are [B, H, W, C], weights [O, taps, C / groups],
/// all of one dtype, float32 or bfloat16. Each function throws DeviceError when cuDNN cannot be loaded or has
/// no such algorithm.
struct CudnnConvolution {
  /// Why cuDNN is unavailable; empty if it is available.
  static std::string absence();

  /// y = x * w + b; b may be undefined.
  static void forward(const ConvShape& shape, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y);
  /// The gradient of x.
  static void backward_data(const ConvShape& shape, const Tensor& dy, const Tensor& w, const Tensor& dx);
  /// The gradient of w, in float32.
  static void backward_weights(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dw);
};

}  // namespace moh
