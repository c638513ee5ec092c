#pragma once

#include "ops/optim/adamw.h"
#include "ops/optim/step_numbers.h"

namespace moh {

/// One step of Adafactor (Shazeer & Stern 2018, arXiv 1804.04235) without momentum, with the step's own
/// learning rate in place of relative steps, as transformers' Adafactor(scale_parameter=False,
/// relative_step=False). The mean of the squared gradients of a matrix [R, C] is kept as its means over rows
/// and columns:
///   g = grad_scale * grad, b = 1 - k^-0.8
///   row[r] = b row[r] + (1 - b) (mean over c of g[r, c]^2 + 1e-30)
///   column[c] = b column[c] + (1 - b) (mean over r of g[r, c]^2 + 1e-30)
///   u[r, c] = g[r, c] / sqrt(row[r] column[c] / mean(row))
///   p = p (1 - s lr weight_decay) - s lr u / max(1, rms(u))
/// Tensors of another rank keep it whole: v = b v + (1 - b) (g^2 + 1e-30), u = g / sqrt(v). rms is the root
/// of the mean square. `parameter` is an AdamWParameter without m, whose own gradient is not read:
/// `exp_avg_sq` is column or v, `exp_avg_sq_row` row. Bit-equal with any number of threads. Not
/// differentiable.
void adafactor(const AdamWParameter& parameter, const Tensor& grad, const StepNumbers& step);

/// muon() or adafactor(), whichever updates the parameter.
void update_one_alone(const AdamWParameter& parameter, const Tensor& grad, const StepNumbers& step);

/// Shapes of exp_avg_sq and exp_avg_sq_row of a parameter; the latter is [0] where there is none.
struct AdafactorShapes {
  Shape exp_avg_sq, exp_avg_sq_row;
};
AdafactorShapes adafactor_shapes(const Shape& parameter);

}  // namespace moh
