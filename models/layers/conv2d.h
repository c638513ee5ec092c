#pragma once

#include "models/module.h"
#include "ops/conv/conv2d.h"

namespace moh {

/// conv2d of images [B, H, W, in] with `weight` [out, in, kernel, kernel] and `bias` [out].
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv2dOptions& options,
         Placement placement)
      : weight_(add_parameter("weight", {out, in / options.groups, kernel, kernel}, placement)),
        bias_(add_parameter("bias", {out}, placement)),
        options_(options) {}

  Variable operator()(const Variable& x) const { return conv2d(x, weight_, bias_, options_); }
  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable weight_, bias_;
  Conv2dOptions options_;
};

}  // namespace moh
