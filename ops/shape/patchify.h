#pragma once

#include "autograd/variable.h"

namespace moh {

/// The order of a patch's values: outermost first.
enum class PatchOrder {
  kChannelRowColumn,  ///< that of a convolution's weight in PyTorch, [out, channel, row, column]
  kRowColumnChannel,  ///< that of DiT's outputs
};

/// images [B, C, H, W] as patches [B, (H / p) (W / p), C p p]: patch number gy (W / p) + gx has the pixels of
/// the rows from gy p on and the columns from gx p on. With kChannelRowColumn a convolution whose stride and
/// kernel are p is `linear` of the patches with its flattened weight. p >= 1 divides H and W. Any floating
/// dtype. Saves nothing. Throws ShapeError, DTypeError, ValueError.
Variable patchify(const Variable& images, std::int64_t p, PatchOrder order);

struct ImageSize {
  std::int64_t channels = 0, height = 0, width = 0;
};

/// The inverse of patchify: patches [B, (H / p) (W / p), C p p] as images [B, C, H, W]. Throws the same.
Variable unpatchify(const Variable& patches, const ImageSize& image, std::int64_t p, PatchOrder order);

}  // namespace moh
