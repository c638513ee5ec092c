#include "models/layers/head_routing.h"

#include <tuple>

#include "autograd/node.h"
#include "ops/moh/query_norm.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

RouterOptions checked(HeadRoutingOptions options) {
  RouterOptions router = options.router;
  if (options.kind == RouterKind::kQueryNorm) router.scaling = GateScaling::kBinary;
  router.straight_through = options.straight_through != StraightThrough::kNone;
  router_widths(router);  // refuses what does not fit
  return router;
}

std::unique_ptr<Linear> make_linear(std::int64_t in, std::int64_t out, DType dtype) {
  return out > 0 ? std::make_unique<Linear>(in, out, /*bias=*/false, dtype) : nullptr;
}

/// Heads to compute: the selected ones, or all of them when the estimator wants every routed head's gradient.
Tensor heads_to_compute(const Routing& routing, const HeadRoutingOptions& options) {
  const bool all =
      options.router.scaling == GateScaling::kBinary && options.straight_through == StraightThrough::kAll;
  return all && grad_enabled() ? full(routing.selected.shape(), 1, DType::kUInt8) : routing.selected;
}

}  // namespace

HeadRouter::HeadRouter(std::int64_t width, std::int64_t kv_heads, const HeadRoutingOptions& options,
                       DType dtype)
    : kv_heads_(kv_heads), options_(options) {
  options_.router = checked(options);
  if (options_.kind != RouterKind::kLearned) return;
  const RouterWidths widths = router_widths(options_.router);
  for (auto [name, linear, out] :
       {std::tuple{"wg", &routed_, widths.routed}, std::tuple{"wg_0", &type_, widths.type},
        std::tuple{"wg_1", &shared_, widths.shared}}) {
    *linear = make_linear(width, out, dtype);
    if (*linear) add_child(name, **linear);
  }
}

HeadChoice HeadRouter::operator()(const Variable& x, const Variable& q, const Tensor& forced_top) const {
  const std::int64_t batch = x.dim(0), length = x.dim(1), heads = options_.router.heads;
  const auto logits = [&](const std::unique_ptr<Linear>& map) {
    return map ? reshape(map->in_float32(x), {batch * length, -1}) : Variable();
  };
  Variable routed = logits(routed_);
  if (options_.kind == RouterKind::kQueryNorm && options_.router.top_k > 0) {
    routed = query_norm_logits(reshape(q, {batch * length, heads, -1}), options_.router.shared);
  }
  Routing routing =
      route_heads(logits(shared_), routed, logits(type_), batch * length, options_.router, forced_top);
  const Shape per_token{batch, length, heads};
  HeadLists lists = build_head_lists(heads_to_compute(routing, options_).reshape(per_token), kv_heads_);
  Variable gates = reshape(routing.gates, per_token);
  return {std::move(gates), std::move(lists), std::move(routing)};
}

LayerRouting summarize(const Variable& balance, const Tensor& load, const HeadRoutingOptions& options) {
  const RouterOptions& router = options.router;
  return {balance, load, router.shared + router.top_k, router.heads};
}

}  // namespace moh
