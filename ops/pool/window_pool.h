#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

enum class PoolKind {
  kMax,
  kMean,  ///< of the pixels inside the image: padding is not counted
};

struct WindowPoolOptions {
  PoolKind kind = PoolKind::kMax;
  std::int64_t window = 3;   ///< pixels a side
  std::int64_t stride = 1;   ///< pixels from one window to the next
  std::int64_t padding = 0;  ///< pixels on all sides of the image, less than `window`
};

/// The maximum, or the mean, of square windows of images in channels-last layout, as torch.nn.MaxPool2d, and
/// torch.nn.AvgPool2d with count_include_pad=False: pixels outside the image are left out, as by TensorFlow's
/// pooling with SAME. x [B, H, W, C] of a floating dtype; returns [B, (H + 2 padding - window) / stride + 1,
/// the same of W, C], rounded down; at least one window must fit. Means are summed in float32 (float64 for
/// float64); a NaN in a window is its maximum. For inference: has no gradient. Throws ShapeError, DTypeError,
/// DeviceError, and ValueError, also where x requires a gradient that would be recorded.
Variable window_pool(const Variable& x, const WindowPoolOptions& options);

}  // namespace moh
