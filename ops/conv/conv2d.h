#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// A number for each axis of an image.
struct PerAxis {
  std::int64_t y, x;

  PerAxis(std::int64_t both) : y(both), x(both) {}  // NOLINT: {.stride = 4} reads as it should
  PerAxis(std::int64_t of_y, std::int64_t of_x) : y(of_y), x(of_x) {}
};

struct Conv2dOptions {
  PerAxis stride = 1;   ///< pixels from one place of the kernel to the next
  PerAxis padding = 0;  ///< zeros before and behind the image
  /// Parts that channels and outputs are cut into; a part sees its own channels only.
  std::int64_t groups = 1;
};

/// The convolution of deep learning (cross-correlation), over images whose channels lie together:
///   y[n, i, j, o] = b[o]
///     + sum over r, s, c of x[n, i stride - padding + r, j stride - padding + s, c] w[o, c, r, s]
/// where c runs over the channels of o's group and x is zero outside the image. x [B, H, W, C], w [O, C /
/// groups, kh, kw] as PyTorch stores it, b [O] or undefined, one floating dtype and device; groups divides C
/// and O. Returns [B, (H + 2 padding - kh) / stride + 1, the same of W, O], rounded down; at least one place
/// of the kernel fits. [B, H, W, C] is [B, H W, C], tokens in rows, without a copy.
///
/// Sums in float32 (float64 for float64); the gradients of parameters stay in that type. Reruns give the same
/// bits, with any number of threads. Saves x and w. On a GPU in float32 and bfloat16, through cuDNN, but for
/// groups = C = O (own kernels) and 1 x 1 kernels (matrix products). Throws ShapeError, DTypeError,
/// DeviceError (a GPU, but no cuDNN), ValueError.
Variable conv2d(const Variable& x, const Variable& w, const Variable& b = {},
                const Conv2dOptions& options = {});

}  // namespace moh
