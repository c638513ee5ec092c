#pragma once

#include "models/module.h"
#include "ops/norm/group_norm.h"

namespace moh {

/// group_norm of images [B, H, W, channels] with `weight` and `bias` [channels].
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t channels, std::int64_t groups, double eps, Placement placement)
      : weight_(add_parameter("weight", {channels}, placement)),
        bias_(add_parameter("bias", {channels}, placement)),
        groups_(groups),
        eps_(eps) {}

  Variable operator()(const Variable& x) const { return group_norm(x, weight_, bias_, groups_, eps_); }
  /// The norm piece by piece: statistics of whole images, and rows of these, not recorded.
  GroupStatistics statistics(const Tensor& x) const { return group_statistics(x, groups_, eps_); }
  Tensor rows(const Tensor& x, const GroupStatistics& of) const {
    return group_norm_rows(x, weight_.value(), bias_.value(), of);
  }

 private:
  Variable weight_, bias_;
  std::int64_t groups_;
  double eps_;
};

}  // namespace moh
