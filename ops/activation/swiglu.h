#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = silu(gate) * up with silu(g) = g / (1 + e^-g), elementwise (Shazeer 2020, arXiv 2002.05202): the inner
/// part of LLaMA's MLP down(silu(gate(x)) * up(x)), in one pass over memory. gate_up [..., 2 F], of any
/// floating dtype, has the gates in the first half of each row, as packed_linear() returns them; y is [...,
/// F]. Arithmetic in float32 (float64 for float64). Saves gate_up. Throws ShapeError, DTypeError, ValueError.
Variable swiglu(const Variable& gate_up);

}  // namespace moh
