#pragma once

#include "autograd/variable.h"

namespace moh {

/// The input of a vision transformer (Dosovitskiy et al. 2021, arXiv 2010.11929, eq. 1): a class token, if
/// there is one, before the tokens of each image, and position embeddings added to all.
///   y[b, 0] = token + positions[0], y[b, 1 + i] = x[b, i] + positions[1 + i]
/// x [B, N, D]; token [1, 1, D] or undefined; positions [1, T, D], T = N + 1 with a token, else N. One
/// floating dtype and device. Returns [B, T, D]. Gradients of token and positions are summed over the images
/// in float32 (float64 for float64), in their order. Saves nothing. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
Variable add_positions(const Variable& x, const Variable& token, const Variable& positions);

/// Token number `index` of each image: x [B, N, D] to [B, D]. The gradient of the others is 0.
/// Throws the same.
Variable take_token(const Variable& x, std::int64_t index);

}  // namespace moh
