#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// The global L2 norm of the gradients: sqrt(sum of the squares of all elements of all tensors). Floating
/// dtypes may be mixed; undefined tensors (parameters without a gradient) count as zeros. Squares are summed
/// in double precision, chunk by chunk, so that nothing overflows and the result has the same bits with any
/// number of threads. Not differentiable. Throws DTypeError.
double grad_norm(std::span<const Tensor> grads);

/// The sums of the squares of one gradient, of parts of it: for the norm of gradients that are not there at
/// one time.
struct SquareSums {
  DType dtype = DType::kFloat32;
  std::vector<double> of_chunks;
};
SquareSums square_sums(const Tensor& grad);
/// The result of grad_norm for these gradients, to the bit.
double norm_of(std::span<const SquareSums> gradients);

/// The factor by which clipping rescales every gradient: min(1, max_norm / (norm + 1e-6)), as
/// torch.nn.utils.clip_grad_norm_. Passed to adamw as grad_scale, which saves a pass over the gradients.
/// Throws NumericError for a norm that is not finite, ValueError for max_norm <= 0.
double clip_factor(double norm, double max_norm);

}  // namespace moh
