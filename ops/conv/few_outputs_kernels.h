#pragma once

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Most outputs of ConvFewOutputs: their weights and a strip of sums fit in registers.
inline constexpr std::int64_t kFewOutputs = 4;

/// Convolution of many channels to few outputs, such as the last one of a decoder, on the CPU: as a matrix
/// multiplication it would leave most of a vector of outputs empty. Vectorised over channels instead; the
/// image is read where it lies.
template <class Backend, class T>
struct ConvFewOutputs {
  /// y [B, H, W, outputs] = b + the convolution of x, as conv2d; b may be null. w [outputs, taps, channels]
  /// in the accumulation dtype; one group, 1 to kFewOutputs outputs.
  static void forward(const T* x, const Acc<T>* w, const T* b, T* y, const ConvShape& shape);
};

}  // namespace moh
