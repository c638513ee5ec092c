#pragma once

#include <memory>

#include "models/layers/linear.h"
#include "models/layers/router.h"

namespace moh {

/// Linear maps to a router's logits. Parameters, without biases, present when their width is not 0: `wg`
/// [E, D] routed, `wg_0` [2, D] type, `wg_1` [S, D] shared, named as in the released code.
class RouterMaps : public Module {
 public:
  RouterMaps(const RouterSizes& sizes, Placement placement);

  /// Packed logits [N, ...] of x [..., D], N vectors; none without a parameter.
  RouterLogits operator()(const Variable& x, const RouterHeads& heads) const;

 private:
  std::unique_ptr<Linear> routed_, type_, shared_;
};

}  // namespace moh
