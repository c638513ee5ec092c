#include "models/layers/router_maps.h"
#include "models/layers/routers.h"

namespace moh {

namespace {

/// Logits W x of each token (arXiv 2410.11842, section 3.2).
class LearnedRouter : public Router {
 public:
  LearnedRouter(const RouterSizes& sizes, Placement placement) : maps_(sizes, placement) {
    add_children_of(maps_);
  }

  RouterLogits logits(const LayerInput& in, const RouterHeads& heads) const override {
    return maps_(in.x, heads);
  }

 private:
  RouterMaps maps_;
};

}  // namespace

const RouterType kLearnedRouter{.name = "learned",
                                .doc = "linear routers on the layer's input.",
                                .make = &make_router<LearnedRouter>,
                                .learns_shared = true,
                                .fits_input = true};

}  // namespace moh
