#pragma once

#include "autograd/recompute.h"
#include "models/module.h"
#include "models/recompute_level.h"
#include "ops/norm/layer_norm.h"

namespace moh {

/// layer_norm over [..., width], or add_layer_norm of a residual branch, with `weight` and `bias` [width].
class LayerNorm : public Module {
 public:
  LayerNorm(std::int64_t width, double eps, Placement placement)
      : weight_(add_parameter("weight", {width}, placement)),
        bias_(add_parameter("bias", {width}, placement)),
        eps_(eps) {}

  Variable operator()(const Variable& x) const { return layer_norm(x, weight_, bias_, eps_); }
  AddedAndNormed after_adding(const Variable& x, const ResidualBranch& branch) const {
    return add_layer_norm(x, branch, weight_, bias_, eps_);
  }
  /// `normed` = (*this)(x), which only backward passes will read from here on, is recomputed if `level` says
  /// so.
  void recompute(RecomputeLevel level, const Variable& normed, const Variable& x) const {
    if (recomputes_norms(level)) recompute_when_read(normed, [this, x = x.detach()] { return (*this)(x); });
  }
  void recompute(RecomputeLevel level, const AddedAndNormed& of) const {
    recompute(level, of.normed, of.sum);
  }

 private:
  Variable weight_, bias_;
  double eps_;
};

}  // namespace moh
