#pragma once

#include <compare>
#include <cstdint>

namespace moh {

/// A convolution along one axis: output i reads inputs i stride - padding + [0, kernel).
struct ConvAxis {
  std::int64_t input = 0, output = 0, kernel = 1, stride = 1, padding = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): the zero of the generated comparison is taken for a pointer
  auto operator<=>(const ConvAxis&) const = default;
};

/// Sizes of a convolution.
struct ConvShape {
  std::int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  ConvAxis y, x;

  constexpr std::int64_t group_channels() const { return channels / groups; }
  constexpr std::int64_t group_outputs() const { return outputs / groups; }
  constexpr std::int64_t taps() const { return y.kernel * x.kernel; }
  /// Rows of pixels in all output images.
  constexpr std::int64_t output_rows() const { return batch * y.output; }
  constexpr std::int64_t output_pixels() const { return output_rows() * x.output; }
  /// Whether each output reads one channel, its own.
  constexpr bool is_depthwise() const { return groups == channels && outputs == channels; }

  /// FLOPs of a forward pass, and of each of its two gradients: 2 per multiply-add of an output and a tap.
  /// Padding is counted, as in the equivalent matrix multiplication.
  constexpr double flops() const {
    return 2 * static_cast<double>(output_pixels()) * static_cast<double>(outputs) *
           static_cast<double>(taps() * group_channels());
  }

  // NOLINTNEXTLINE(modernize-use-nullptr): the zero of the generated comparison is taken for a pointer
  auto operator<=>(const ConvShape&) const = default;
};

}  // namespace moh
