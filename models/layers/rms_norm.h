#pragma once

#include "core/error.h"
#include "models/module.h"
#include "ops/norm/rms_norm.h"

namespace moh {

/// rms_norm over [..., width], or add_rms_norm of a residual branch (or none), with weight [width].
class RmsNorm : public Module {
 public:
  RmsNorm(std::int64_t width, double eps, Placement placement)
      : weight_(add_parameter("weight", {width}, placement)), eps_(eps) {}

  Variable operator()(const Variable& x) const { return rms_norm(x, weight_, eps_); }
  /// The branch is added as it is.
  AddedAndNormed after_adding(const Variable& x, const ResidualBranch& branch) const {
    MOH_CHECK(branch.is_plain(), "add_rms_norm drops no samples, and has no gates");
    return add_rms_norm(x, branch.value, weight_, eps_);
  }
  const Variable& weight() const { return weight_; }
  double eps() const { return eps_; }

 private:
  Variable weight_;
  double eps_;
};

}  // namespace moh
