#pragma once

#include "autograd/variable.h"

namespace moh {

/// Adds an expert's output to those of others, in a mixture of feed-forward networks (Shazeer et al. 2017,
/// arXiv 1701.06538): y[n] = sum[n] + gates[n, expert] output[n]. output [..., D] of N rows; sum of its
/// shape, or undefined: zeros; gates [N, E] of any floating dtype, usually float32. Rows whose gate is 0 are
/// not read, and get no gradient. The gradient of a gate is <dy, output>, 0 where it is 0. Arithmetic in
/// float32 (float64 for float64). Saves output and gates. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
Variable add_expert(const Variable& sum, const Variable& output, const Variable& gates, std::int64_t expert);

}  // namespace moh
