#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// Outputs of the experts of a head, summed with their gates, and the input of a head, times the gates of its
/// experts: how SwitchHead (arXiv 2312.07987) makes values and combines outputs. Shapes: B sequences, T
/// tokens, U heads, E experts each, d head width; expert e of head u has number u E + e. gates [B, T, U E],
/// of any floating dtype, usually float32; `selected` uint8 [B, T, U E], as ExpertGates. Of experts that are
/// not selected neither gates nor rows are read, and their gradients are 0. Arithmetic in float32 (float64
/// for float64). Save their operands. Throw ShapeError, DTypeError, DeviceError, ValueError.

/// y[b, t, u] = sum over the selected e of gates[b, t, u E + e] x[b, t, u E + e]. x [B, T, U E, d]; returns
/// [B, T, heads, d] with U = `heads`. dx = spread_to_experts(dy), and <dy, x> is the gradient of a gate.
Variable mix_experts(const Variable& x, const Variable& gates, const Tensor& selected, std::int64_t heads);

/// y[b, t, u E + e] = gates[b, t, u E + e] x[b, t, u] for the selected, 0 for the others. x [B, T, U, d];
/// returns [B, T, U E, d]. dx = mix_experts(dy), and <dy, x> is the gradient of a gate.
Variable spread_to_experts(const Variable& x, const Variable& gates, const Tensor& selected);

}  // namespace moh
