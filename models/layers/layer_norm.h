#pragma once

#include "models/module.h"
#include "ops/norm/layer_norm.h"

namespace moh {

/// layer_norm over [..., width] with `weight` and `bias` [width].
class LayerNorm : public Module {
 public:
  LayerNorm(std::int64_t width, double eps, Placement placement)
      : weight_(add_parameter("weight", {width}, placement)),
        bias_(add_parameter("bias", {width}, placement)),
        eps_(eps) {}

  Variable operator()(const Variable& x) const { return layer_norm(x, weight_, bias_, eps_); }

 private:
  Variable weight_, bias_;
  double eps_;
};

}  // namespace moh
