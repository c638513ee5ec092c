#pragma once

#include "ops/optim/adamw.h"
#include "ops/optim/step_numbers.h"

namespace moh {

/// One step of Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon) for a matrix [R, C], with weight
/// decay and the step length of Moonlight (Liu et al. 2025, arXiv 2502.16982), which gives an update the root
/// mean square that AdamW's usually has, so that both take one learning rate:
///   g = grad_scale * grad
///   m = momentum m + (1 - momentum) g
///   u = momentum m + (1 - momentum) g
///   p = p (1 - s lr weight_decay) - s lr 0.2 sqrt(max(R, C)) orthogonalised(u)
/// `matrix` is an AdamWParameter with `orthogonal`, whose own gradient is not read. Not differentiable.
void muon(const AdamWParameter& matrix, const Tensor& grad, const StepNumbers& step);

/// Five steps of Newton-Schulz's iteration, x = a x + (b x x^T + c (x x^T)^2) x with Jordan's coefficients,
/// from x / |x| (Frobenius): near the closest matrix with orthonormal rows (or columns, if they are fewer),
/// singular values between 0.7 and 1.2. x [R, C], of a norm of 1 at most; returned in its dtype, in which the
/// products are rounded.
Tensor orthogonalised(Tensor x);

}  // namespace moh
