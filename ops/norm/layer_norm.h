#pragma once

#include "autograd/variable.h"
#include "ops/norm/residual_branch.h"

namespace moh {

/// y = (x - mean) * r * weight + bias with r = 1 / sqrt(variance + eps), mean and (biased) variance over the
/// last axis (Ba et al. 2016, arXiv 1607.06450). x [..., D]; weight and bias [D], each may be undefined: 1
/// and 0. One device and floating dtype; eps > 0. Returns [..., D]. Sums in float32 (float64 for float64),
/// the variance around the mean. Saves x, weight, mean and r. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps);

/// sum = x + branch, rounded to its dtype, and layer_norm(sum, weight, bias, eps), in one pass over memory
/// instead of two, on a CPU with their bits. x and branch [B, ..., D]; without a branch, sum is x. The
/// gradient of the sum is added to that of the norm in the same pass, in which a GPU writes the branch's,
/// too, where that is another one. Saves sum, weight, mean and r. Throws as layer_norm and drop_path, and
/// ShapeError for a branch with gates.
AddedAndNormed add_layer_norm(const Variable& x, const ResidualBranch& branch, const Variable& weight,
                              const Variable& bias, double eps);

/// Adaptive layer norm, adaLN (Peebles & Xie 2023, arXiv 2212.09748), norm and modulation in one pass:
///   y[b] = n[b] (1 + scale[b]) + shift[b], with n = layer_norm of x without weight and bias.
/// x [B, ..., D]; modulation [B, M, D], the output of the conditioning layer, of which this norm reads two
/// rows: shift[b] = modulation[b, first], scale[b] = modulation[b, first + 1]. The gradient of the other rows
/// is 0. One device and floating dtype; eps > 0. Returns [B, ..., D]. Saves x, modulation, mean and r. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Variable layer_norm_modulate(const Variable& x, const Variable& modulation, std::int64_t first, double eps);

/// add_layer_norm for layer_norm_modulate: sum = x + branch, of which the branch may have gates, in rows of
/// `modulation` or of another one, and layer_norm_modulate(sum, modulation, first, eps), on a CPU with the
/// bits of the two ops. Saves a branch with gates, besides what add_layer_norm does. Throws as they do.
AddedAndNormed add_layer_norm_modulate(const Variable& x, const ResidualBranch& branch,
                                       const Variable& modulation, std::int64_t first, double eps);

}  // namespace moh
