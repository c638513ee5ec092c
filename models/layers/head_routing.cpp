#include "models/layers/head_routing.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "ops/attention/attention.h"
#include "ops/moh/head_projection.h"
#include "ops/moh/masked_router.h"
#include "ops/moh/router_z_loss.h"
#include "ops/moh/scale_heads.h"
#include "ops/shape/repeat_heads.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

RouterOptions checked(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  RouterOptions router = options.router;
  if (options.kind->binary_gates) router.scaling = GateScaling::kBinary;
  router.straight_through = options.straight_through != StraightThrough::kNone;
  router_widths(router);  // throws if the counts are inconsistent
  options.rule->require(options, kv_heads);
  if (options.shared_heads.empty()) return router;
  const auto listed = static_cast<std::int64_t>(options.shared_heads.size());
  if (listed != router.num_shared) {
    throw ValueError(error_message("router", "shared_heads",
                                   "as many as are shared (" + std::to_string(router.num_shared) + ")",
                                   std::to_string(listed)));
  }
  return router;
}

/// Whether the estimator needs the gradient of every routed head's gate.
bool wants_all_heads(const HeadRoutingOptions& options) {
  return options.router.scaling == GateScaling::kBinary && options.router.top_k > 0 &&
         options.straight_through == StraightThrough::kAll;
}

/// The heads to compute, the same in both runs of a recomputed layer: with other heads, projections would
/// differ by rounding.
Tensor heads_to_compute(const Routing& routing, const HeadRoutingOptions& options) {
  if (!wants_all_heads(options) || !backward_follows()) return routing.selected;
  return full(routing.selected.shape(), 1, DType::kUInt8, routing.selected.device());
}

/// Numbers of units, [N, U], for each of their heads, [N, U unit_heads].
Variable of_each_head(const Variable& units, std::int64_t unit_heads) {
  if (unit_heads == 1) return units;
  const Variable each = repeat_heads(reshape(units, {units.dim(0), units.dim(1), 1, 1}), 0, unit_heads);
  return reshape(each, {units.dim(0), units.dim(1) * unit_heads});
}

/// Numbers of a sample's heads, [B, H], for each of its tokens, [B, T, H].
Variable of_each_token(const Variable& heads, std::int64_t tokens) {
  const std::int64_t batch = heads.dim(0), width = heads.dim(1);
  return reshape(repeat_heads(reshape(heads, {batch, 1, 1, width}), 0, tokens), {batch, tokens, width});
}

}  // namespace

HeadChoice HeadChoice::detached() const {
  HeadChoice choice = *this;
  choice.gates = gates.detach();
  choice.z_loss = {};
  choice.routing = {};
  return choice;
}

HeadKinds head_kinds(const HeadRoutingOptions& options) {
  const RouterOptions& router = options.router;
  const Tensor order = head_order(router.heads, options.shared_heads);
  const std::span<const std::int32_t> heads = order.span<std::int32_t>();
  const auto shared = static_cast<std::ptrdiff_t>(router.num_shared);
  return {{heads.begin(), heads.begin() + shared}, {heads.begin() + shared, heads.end()}};
}

HeadKinds query_head_kinds(const HeadRoutingOptions& options) {
  const auto in_heads = [&](const std::vector<std::int64_t>& units) {
    std::vector<std::int64_t> heads;
    for (const std::int64_t unit : units) {
      for (std::int64_t i = 0; i < options.unit_heads; ++i) heads.push_back(unit * options.unit_heads + i);
    }
    return heads;
  };
  const HeadKinds units = head_kinds(options);
  return {in_heads(units.shared), in_heads(units.routed)};
}

DType router_dtype(RouterPrecision precision, DType model_dtype) {
  return precision == RouterPrecision::kFloat32 ? accumulate_dtype(model_dtype) : model_dtype;
}

std::int64_t annealed_top_k(const HeadRoutingOptions& options, double progress) {
  const std::int64_t top_k = options.router.top_k;
  if (progress >= options.top_k_anneal_until) return top_k;
  const std::int64_t groups = options.router.groups;
  const auto more = static_cast<double>(options.router.group_routed() - options.router.group_top_k());
  return top_k +
         groups * static_cast<std::int64_t>(std::ceil(more * (1 - progress / options.top_k_anneal_until)));
}

std::int64_t computed_heads(const HeadRoutingOptions& options, bool backward_follows) {
  const RouterOptions& router = options.router;
  const bool all = wants_all_heads(options) && backward_follows;
  return options.unit_heads * (all ? router.heads : router.num_shared + router.top_k);
}

HeadRouter::HeadRouter(std::int64_t width, std::int64_t kv_heads, std::int64_t head_dim,
                       const HeadRoutingOptions& options, Placement placement)
    : kv_heads_(kv_heads), head_dim_(head_dim), options_(options) {
  options_.router = checked(options, kv_heads);
  if (!options.shared_heads.empty())
    order_ = head_order(options_.router.heads, options.shared_heads, placement.device);
  add_balance_bias(placement);
  RouterWidths widths = router_widths(options_.router);
  if (options_.learn_shared_until > 0) {
    masks_ = std::make_unique<SharedMasks>(options_.router.heads, options_.router.num_shared,
                                           options_.learn_shared_until, placement);
    add_children_of(*masks_);
    widths.shared = widths.routed = options_.router.heads;
  }
  placement.dtype = router_dtype(options_.precision, placement.dtype);
  router_ = options_.kind->make({width, options_.router, widths}, placement);
  add_children_of(*router_);
}

void HeadRouter::add_balance_bias(Placement placement) {
  const RouterOptions& router = options_.router;
  if (options_.balance_bias == 0 || router.top_k == 0) return;
  if (options_.learn_shared_until > 0)
    throw ValueError(error_message("router", "balance_bias", "0 where shared heads are learned", "a rate"));
  placement.dtype = accumulate_dtype(placement.dtype);
  balance_bias_ = add_parameter("e_score_correction_bias", {router.routed()}, placement);
  balance_bias_.set_requires_grad(false);
}

HeadRoutingOptions HeadRouter::options() const {
  if (!masks_) return options_;
  HeadRoutingOptions options = options_;
  options.shared_heads = masks_->heads();
  return options;
}

bool HeadRouter::set_progress(double share) {
  progress_ = share;
  if (!masks_) return false;
  const bool changed = masks_->set_progress(share);
  const bool on_gpu = masks_->parameters().front().variable.device() != kCpu;
  if (on_gpu && !masks_->learning() && !fixed_) fixed_ = learned_heads();
  return changed;
}

RouterHeads HeadRouter::learned_heads() const {
  const Device device = masks_->parameters().front().variable.device();
  const auto rows = [&](const std::vector<std::int64_t>& heads) {
    return tensor_of<std::int64_t>({static_cast<std::int64_t>(heads.size())}, heads).to(device);
  };
  const HeadKinds kinds = head_kinds(options());
  return {head_order(options_.router.heads, kinds.shared, device), rows(kinds.shared), rows(kinds.routed)};
}

/// The heads behind the logits of a pass, which draws random numbers or not.
RouterHeads HeadRouter::heads_of_pass(bool draws) const {
  if (!masks_) return {order_};
  return fixed_ && draws ? *fixed_ : learned_heads();
}

Variable HeadRouter::of_tokens(const Variable& units, const Shape& per_token) const {
  const Variable heads = of_each_head(units, options_.unit_heads);
  return options_.kind->per_sample ? of_each_token(heads, per_token[1]) : reshape(heads, per_token);
}

Tensor HeadRouter::of_tokens(const Tensor& units, const Shape& per_token) const {
  if (options_.unit_heads == 1 && !options_.kind->per_sample) return units.reshape(per_token);
  const NoGrad no_grad;
  return of_tokens(Variable(units.to(DType::kFloat32)), per_token).value().to(DType::kUInt8);
}

/// Adds the statistics of a layer in training.
void HeadRouter::add_statistics(HeadChoice& choice, const RouterOptions& router) const {
  choice.two_stage = router_widths(router).type > 0;
  choice.refuses = router_widths(router).routed > 0 && router.top_k < router.routed();
  const bool has_margin = choice.refuses && !balance_bias_.defined();
  if (!choice.two_stage && !has_margin) return;
  const Tensor& statistics = choice.routing.statistics;
  choice.statistics = choice.refuses && !has_margin ? statistics.slice(0, 1) : statistics;
}

/// Routing with masks that are drawn anew. They decide how many heads are routed; of these, as large a share
/// is kept as when the wanted number of heads is shared.
HeadChoice HeadRouter::masked_choice(const LayerInput& in, Generator& draws,
                                     const Tensor& balance_load) const {
  const std::int64_t batch = in.x.dim(0), length = in.x.dim(1), heads = options_.router.heads;
  const RouterOptions& router = options_.router;
  const RouterLogits logits = router_->logits(in, {}).unpacked();
  const double kept_share = static_cast<double>(annealed_top_k(options_, progress_)) /
                            static_cast<double>(heads - router.num_shared);
  MaskedRouting masked = route_masked_heads(logits.shared, logits.routed, logits.type, masks_->draw(draws),
                                            kept_share, router.balance_loss, balance_load);
  const Shape per_token{batch, length, heads};
  const Tensor to_compute = masked.selected.reshape(per_token);
  HeadChoice choice;
  choice.gates = reshape(masked.gates, per_token);
  choice.lists = build_head_lists(to_compute, kv_heads_, heads);
  if (dry_run()) choice.lists.longest = batch > 0 ? choice.lists.num_rows() / (batch * kv_heads_) : 0;
  choice.computed_heads = heads;
  choice.lists_of_heads = lists_of_heads(choice, to_compute);
  choice.routing = {masked.gates, masked.balance, masked.selected, {}, {}, masked.load, masked.load, {}};
  if (options_.z_loss) choice.z_loss = router_z_loss(logits.routed);
  choice.heads_each = masked.heads_each;
  if (options_.top_k_anneal_until > 0) choice.top_k = masked.top_k;
  // A token's kept heads are no list, and have no margin.
  choice.two_stage = masked.routed_weight.defined();
  choice.statistics = masked.routed_weight;
  return choice;
}

/// The choice of heads is made for each row of the logits, a token or a sample, and then for the tokens.
HeadChoice HeadRouter::operator()(const LayerInput& in, const ForwardContext& context,
                                  std::int64_t layer) const {
  Generator* const draws = context.draws();
  if (masks_ && masks_->learning() && draws != nullptr)
    return masked_choice(in, *draws, context.balance_load_of(layer));
  HeadRoutingOptions now = options_;
  if (context.training) now.router.top_k = annealed_top_k(options_, progress_);
  const Device device = in.x.device();
  const std::int64_t batch = in.x.dim(0), length = in.x.dim(1);
  const RouterHeads heads = heads_of_pass(draws != nullptr);
  RouterLogits logits = router_->logits(in, heads);
  if (options_.z_loss) logits = logits.unpacked();
  HeadChoice choice;
  const Tensor forced_top = context.forced_top_of(layer), balance_load = context.balance_load_of(layer);
  if (logits.packed.defined()) {
    choice.routing =
        route_heads_packed(logits.packed, now.router, heads.order, forced_top, balance_load, balance_bias());
  } else {
    choice.routing =
        route_heads(logits.shared, logits.routed, logits.type, now.kind->per_sample ? batch : batch * length,
                    now.router, heads.order, forced_top, device, balance_load, balance_bias());
  }
  const Tensor to_compute = heads_to_compute(choice.routing, now);
  const bool all = !to_compute.shares_storage_with(choice.routing.selected);
  const Shape per_token{batch, length, now.query_heads()};
  choice.rule = now.rule;
  choice.computed_heads =
      all ? now.query_heads() : now.unit_heads * (now.router.num_shared + now.router.top_k);
  choice.as_many_each = !forced_top.defined();  // which may name a head twice
  choice.pairs = of_tokens(to_compute, per_token);
  choice.rule->lay_out(choice, kv_heads_, now);
  if (!context.equal_rows) choice.lists_of_heads = lists_of_heads(choice, choice.pairs);
  choice.gates = of_tokens(choice.routing.gates, per_token);
  if (options_.z_loss && logits.routed.defined()) choice.z_loss = router_z_loss(logits.routed);
  if (context.training) add_statistics(choice, now.router);
  if (context.training && options_.top_k_anneal_until > 0) {
    const auto number = [&](std::int64_t count) {
      return full({}, static_cast<double>(count), DType::kFloat64, device);
    };
    choice.heads_each = number(choice.computed_heads);
    choice.top_k = number(now.router.top_k);
  }
  return choice;
}

HeadLists HeadRouter::lists_of_heads(const HeadChoice& choice, const Tensor& pairs) const {
  if (pairs.device() != kCpu) return {};  // dense projections are faster on a GPU
  const std::int64_t tokens = pairs.dim(0) * pairs.dim(1), heads = pairs.dim(2);
  const HeadLists& lists = choice.lists;
  const std::int64_t num_pairs = lists.rows.defined() ? lists.num_rows() : tokens * choice.computed_heads;
  const double active = static_cast<double>(num_pairs) / static_cast<double>(pairs.numel());
  if (!head_projection_pays(tokens, head_dim_, active)) return {};
  if (lists.rows.defined() && lists.kv_heads == heads) return lists;
  return lists_of(pairs, heads, choice.per_token(), options_);
}

void require_packed(std::string_view where, const HeadRoutingOptions& options, RouterSources sources) {
  const std::string why = why_unreadable(*options.kind, sources);
  if (!why.empty())
    throw ValueError(error_message(where, "router", "one of " + readable_routers(sources),
                                   std::string(options.kind->name), why));
  if (!options.rule->lists)
    throw ValueError(error_message(where, "routing", "heads or groups", std::string(options.rule->name)));
}

Variable attend(const Variable& q, const Variable& k, const Variable& v, const HeadChoice* choice,
                const AttentionOptions& options) {
  if (choice == nullptr) return attention(q, k, v, options);
  return choice->rule->attend(q, k, v, *choice, options);
}

Tensor heads_in_slots(const Variable& q, const Variable& k, const Variable& v, HeadChoice choice,
                      const AttentionOptions& options) {
  const NoGrad no_grad;
  choice.gates = Variable(full(choice.gates.shape(), 1, choice.gates.dtype(), q.device()));
  return routings::kWithinGroups->attend(q, k, v, choice, options).value();
}

Variable to_heads(const Linear& map, const Variable& x, std::int64_t head_dim, const HeadChoice* choice) {
  if (choice && choice->projects_chosen_heads()) {
    Variable heads = project_to_heads(x, map.weight(), map.bias(), choice->lists_of_heads, head_dim);
    if (!map.adapter()) return heads;
    // Of all heads, as no other product of its rank is worth a list: nothing reads those that are not listed.
    const Variable rows = reshape(heads, {x.dim(0), x.dim(1), -1});
    return reshape(map.adapted(x, rows), heads.shape());
  }
  return reshape(map(x), {x.dim(0), x.dim(1), -1, head_dim});
}

Variable from_heads(const Linear& map, const Variable& heads, const HeadChoice* choice) {
  const Variable rows = reshape(heads, {heads.dim(0), heads.dim(1), -1});
  if (choice && choice->projects_chosen_heads() && choice->rule->keeps_heads()) {
    return map.adapted(rows, project_from_heads(heads, map.weight(), map.bias(), choice->lists_of_heads));
  }
  return map(rows);
}

Variable scaled_heads(const Variable& heads, const Variable& scales) {
  return scales.defined() ? scale_heads(heads, scales) : heads;
}

LayerRouting summarize(const HeadChoice& choice) {
  return {choice.routing.balance, choice.routing.load,        choice.z_loss,
          choice.computed_heads,  choice.gates.dim(2),        choice.heads_each,
          choice.top_k,           choice.statistics,          choice.two_stage,
          choice.refuses,         choice.routing.balance_load};
}

}  // namespace moh
