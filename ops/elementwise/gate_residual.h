#pragma once

#include "autograd/variable.h"

namespace moh {

/// y[b] = residual[b] + gate[b] * x[b]: the gated residual connection of DiT's adaLN-Zero (Peebles & Xie
/// 2023, arXiv 2212.09748). residual and x [B, ..., D]; modulation [B, M, D], as in layer_norm_modulate, of
/// which this op reads one row: gate[b] = modulation[b, row]. The gradient of the other rows is 0. One
/// floating dtype and device. Returns [B, ..., D]. Saves x and modulation. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
Variable gate_residual(const Variable& residual, const Variable& x, const Variable& modulation,
                       std::int64_t row);

}  // namespace moh
