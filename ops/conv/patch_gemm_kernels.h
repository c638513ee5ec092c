#pragma once

#include <cstddef>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Convolution on the CPU as a matrix multiplication whose left operand, the patches, is made some pixels at
/// a time by the task that multiplies them, in its L2, where the bias is added, too. The weights are packed
/// once.
template <class Backend, class T>
struct PatchGemmKernels {
  /// Bytes of scratch of run.
  static std::size_t scratch_bytes(const ConvShape& shape);
  /// y [B, H, W, outputs] = b + the convolution of x by w [outputs, taps, channels / groups]; b may be null.
  static void run(const T* x, const T* w, const T* b, T* y, const ConvShape& shape);
};

}  // namespace moh
