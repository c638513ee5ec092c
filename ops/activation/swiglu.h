#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = silu(gate) * up with silu(g) = g / (1 + e^-g), elementwise (Shazeer 2020, arXiv 2002.05202): the inner
/// part of LLaMA's MLP down(silu(gate(x)) * up(x)), in one pass over memory. gate and up [..., F] have one
/// shape, floating dtype and device. Arithmetic in float32 (float64 for float64). Saves gate and up. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Variable swiglu(const Variable& gate, const Variable& up);

}  // namespace moh
