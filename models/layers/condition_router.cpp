#include "models/layers/router_maps.h"
#include "models/layers/routers.h"

namespace moh {

namespace {

/// Logits W c of each sample, with c the vector that its adaptive norms read. DyDiT's timestep-wise dynamic
/// width (arXiv 2410.03456) selects heads by the time step alone (docs/paper.md).
class ConditionRouter : public Router {
 public:
  ConditionRouter(const RouterSizes& sizes, Placement placement) : maps_(sizes, placement) {
    add_children_of(maps_);
  }

  RouterLogits logits(const LayerInput& in, const RouterHeads& heads) const override {
    return maps_(in.condition, heads);
  }

 private:
  RouterMaps maps_;
};

}  // namespace

const RouterType kConditionRouter{
    .name = "condition",
    .doc =
        "linear routers on the vector of time step and class that conditions a sample, so that all tokens "
        "of a picture have the same heads (diffusion transformers).",
    .make = &make_router<ConditionRouter>,
    .reads_condition = true,
    .per_sample = true};

}  // namespace moh
