#include "models/layers/routers.h"

namespace moh {

namespace {

/// Logits of no head: all tokens have the shared heads.
class StaticRouter : public Router {
 public:
  StaticRouter(const RouterSizes& /*sizes*/, Placement /*placement*/) {}

  RouterLogits logits(const LayerInput& /*in*/, const RouterHeads& /*heads*/) const override { return {}; }
};

}  // namespace

const RouterType kStaticRouter{
    .name = "static",
    .doc =
        "no routing: all tokens have the `num_shared` heads of `shared_heads`, with weight 1, and the others "
        "are not computed, as in a dense model with these heads alone.",
    .make = &make_router<StaticRouter>,
    .keeps_shared = true,
    .binary_gates = true};

}  // namespace moh
