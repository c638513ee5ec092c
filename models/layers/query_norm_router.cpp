#include "models/layers/routers.h"
#include "ops/moh/query_norm.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

/// Norms of the queries of each token, over their standard deviation (query_norm_logits).
class QueryNormRouter : public Router {
 public:
  QueryNormRouter(const RouterSizes& sizes, Placement /*placement*/) : options_(sizes.options) {}

  RouterLogits logits(const LayerInput& in, const RouterHeads& heads) const override {
    if (options_.routed() == 0) return {};
    const std::int64_t tokens = in.x.dim(0) * in.x.dim(1);
    const Variable units = reshape(in.queries, {tokens, options_.heads, -1});
    return {.routed = query_norm_logits(units, options_.num_shared, heads.order)};
  }

 private:
  RouterOptions options_;
};

}  // namespace

const RouterType kQueryNormRouter{
    .name = "query_norm",
    .doc =
        "no parameters; heads are selected by the norms of their queries, and selected heads have weight 1 "
        "(MoH-LLaMA3).",
    .make = &make_router<QueryNormRouter>,
    .reads_queries = true,
    .binary_gates = true,
    .needs_two = "compares their norms"};

}  // namespace moh
