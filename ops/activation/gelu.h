#pragma once

#include "autograd/variable.h"

namespace moh {

/// GELU exactly, x P(Z <= x) for a standard normal Z, or in its tanh approximation (as
/// `approximate` of PyTorch).
enum class GeluForm { kExact, kTanh };

/// y = x / 2 (1 + erf(x / sqrt(2))), or y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), elementwise
/// (Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2). x has any shape and floating dtype; arithmetic in
/// float32 (float64 for float64). Saves x. Throws DTypeError, ValueError.
Variable gelu(const Variable& x, GeluForm form);

}  // namespace moh
