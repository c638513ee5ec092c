#pragma once

#include "autograd/variable.h"

namespace moh {

/// The order of a patch's values: outermost first.
enum class PatchOrder {
  kChannelRowColumn,  ///< as in a convolution's weight in PyTorch, [out, channel, row, column]
  kRowColumnChannel,  ///< as in DiT's outputs
};

/// images [B, C, H, W] as patches [B, (H / p) (W / p), C p p]: patch number gy (W / p) + gx has the p x p
/// pixels from row gy p and column gx p on. With kChannelRowColumn, a convolution with stride and kernel size
/// p equals `linear` of the patches with its flattened weight. p >= 1 divides H and W. Any floating dtype.
/// Saves nothing. Throws ShapeError, DTypeError, ValueError.
Variable patchify(const Variable& images, std::int64_t p, PatchOrder order);

struct ImageSize {
  std::int64_t channels = 0, height = 0, width = 0;
};

/// The inverse of patchify: patches [B, (H / p) (W / p), C p p] as images [B, C, H, W]. Throws the same.
Variable unpatchify(const Variable& patches, const ImageSize& image, std::int64_t p, PatchOrder order);

}  // namespace moh
