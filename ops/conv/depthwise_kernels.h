#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Along one axis, the position of the source image that a position of the written image reads through a tap
/// of the kernel: for a convolution, and for the gradient of its input, with the images swapped. In 32 bits,
/// whose division costs a GPU far less than that of 64: a padded image is not longer (conv_operands.cpp).
struct TapAxis {
  std::int32_t from = 0, to = 0, taps = 1;  ///< pixels of the image that is read, and of the one written
  std::int32_t step = 1, tap_step = 1, offset = 0, divisor = 1;

  static constexpr TapAxis forward(const ConvAxis& axis) {
    return of(axis.input, axis.output, axis.kernel, axis.stride, 1, -axis.padding, 1);
  }
  static constexpr TapAxis backward(const ConvAxis& axis) {
    return of(axis.output, axis.input, axis.kernel, 1, -1, axis.padding, axis.stride);
  }

  /// The source position for position `place` and a tap: (place step + tap tap_step + offset) / divisor; -1
  /// if that is not an integer, or outside the image.
  constexpr std::int32_t seen(std::int32_t place, std::int32_t tap) const {
    const std::int32_t times = place * step + tap * tap_step + offset;
    if (times < 0 || times % divisor != 0) return -1;
    const std::int32_t found = times / divisor;
    return found < from ? found : -1;
  }

 private:
  static constexpr TapAxis of(std::int64_t from, std::int64_t to, std::int64_t taps, std::int64_t step,
                              std::int32_t tap_step, std::int64_t offset, std::int64_t divisor) {
    const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    return {narrow(from), narrow(to), narrow(taps), narrow(step), tap_step, narrow(offset), narrow(divisor)};
  }
};

/// A convolution of each channel with a kernel of its own.
struct DepthwisePass {
  std::int64_t batch = 0, channels = 0;
  TapAxis y, x;
};

/// Images are [batch, height, width, channels], weights [kh, kw, channels] in the accumulation dtype.
template <class Backend, class T>
struct DepthwiseKernels {
  /// to = b + the sum over the taps of w from; b may be null.
  static void run(const T* from, const Acc<T>* w, const T* b, T* to, const DepthwisePass& pass);
  /// dw [kh, kw, channels] = the sum over all pixels of dy times the pixel of x under each tap.
  static void weight_gradient(const T* x, const T* dy, Acc<T>* dw, const ConvShape& shape);
};

}  // namespace moh
