#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// A number for each axis of an image; constructed from one number for both.
struct PerAxis {
  std::int64_t y, x;

  PerAxis(std::int64_t both) : y(both), x(both) {}  // NOLINT: {.stride = 4} reads as it should
  PerAxis(std::int64_t of_y, std::int64_t of_x) : y(of_y), x(of_x) {}
};

struct Conv2dOptions {
  PerAxis stride = 1;   ///< pixels from one position of the kernel to the next
  PerAxis padding = 0;  ///< zeros on both sides of the image
  /// Number of groups that channels and outputs are divided into; outputs depend on channels of
  /// their group only.
  std::int64_t groups = 1;
};

/// Convolution (cross-correlation, as torch.conv2d) over images in channels-last layout:
///   y[n, i, j, o] = b[o]
///     + sum over r, s, c of x[n, i stride - padding + r, j stride - padding + s, c] w[o, c, r, s]
/// where c runs over the channels of o's group and x is zero outside the image. x [B, H, W, C], w [O, C /
/// groups, kh, kw] as in PyTorch, b [O] or undefined, one floating dtype and device; groups divides C and O.
/// Returns [B, (H + 2 padding - kh) / stride + 1, the same of W, O], rounded down; at least one position of
/// the kernel must fit. [B, H, W, C] can be reshaped to tokens [B, H W, C] without a copy.
///
/// Accumulates in float32 (float64 for float64); the gradients of parameters stay in that dtype. Results have
/// the same bits in every run and with any number of threads. Saves x and w. On a GPU in float32 and
/// bfloat16: depthwise (groups = C = O) by own kernels, 1 x 1 kernels by matrix multiplication, all others by
/// cuDNN. Throws ShapeError, DTypeError, DeviceError (a GPU, but no cuDNN), ValueError.
Variable conv2d(const Variable& x, const Variable& w, const Variable& b = {},
                const Conv2dOptions& options = {});

}  // namespace moh
