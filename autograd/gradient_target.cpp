#include "autograd/gradient_target.h"

namespace moh {

GradientTarget::GradientTarget(const Variable& of)
    : of_(!of.defined() || of.is_leaf() ? of : of.detach()), needed_(of.requires_grad()) {}

GradientTarget::Sum GradientTarget::sum() const {
  if (!of_.requires_grad()) return {fresh(), false};
  if (of_.grad().defined()) return {of_.grad(), true};
  return {begun(), false};
}

Tensor GradientTarget::contribution() const {
  const bool fits = of_.requires_grad() && of_.grad_dtype() == accumulate_dtype(of_.dtype());
  return fits && !of_.grad().defined() ? begun() : fresh();
}

Tensor GradientTarget::fresh() const {
  return empty(of_.shape(), accumulate_dtype(of_.dtype()), of_.device());
}

}  // namespace moh
