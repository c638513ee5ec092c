#pragma once

#include "core/tensor.h"
#include "models/vision/relative_positions.h"

namespace moh {

/// The weights of a bicubic interpolation from the tokens of one grid to those of another, float32
/// [to.tokens(), from.tokens()]: Keys' kernel with a = -1/2, as wide as the pixels it averages where the grid
/// shrinks (antialias of torch.nn.functional.interpolate). Rows sum to 1. Throws ValueError for an empty
/// grid.
Tensor bicubic_weights(const GridSize& from, const GridSize& to);

/// The weights for position embeddings [prefix + tokens, D], whose first `prefix` rows (a class token's) have
/// no place in the image and stay as they are: [prefix + to.tokens(), prefix + from.tokens()].
Tensor position_weights(const GridSize& from, const GridSize& to, std::int64_t prefix);

}  // namespace moh
