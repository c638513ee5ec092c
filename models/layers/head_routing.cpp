#include "models/layers/head_routing.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/linalg/linear.h"
#include "ops/moh/gather_heads.h"
#include "ops/moh/head_projection.h"
#include "ops/moh/head_slots.h"
#include "ops/moh/masked_router.h"
#include "ops/moh/query_norm.h"
#include "ops/moh/router_statistics.h"
#include "ops/moh/router_z_loss.h"
#include "ops/moh/scale_heads.h"
#include "ops/shape/repeat_heads.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

/// Checks that every KV group has as many shared heads.
void check_groups(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  const RouterOptions& router = options.router;
  const auto refuse = [](const std::string& what, const std::string& expected, std::int64_t found) {
    throw ValueError(error_message("router", what, expected, std::to_string(found)));
  };
  if (router.groups != kv_heads || router.heads % kv_heads != 0)
    refuse("groups", "the KV heads (" + std::to_string(kv_heads) + "), a divisor of the heads",
           router.groups);
  std::vector<std::int64_t> shared(static_cast<std::size_t>(kv_heads));
  for (const std::int64_t head : head_kinds(options).shared)
    ++shared[static_cast<std::size_t>(head / (router.heads / kv_heads))];
  for (const std::int64_t count : shared) {
    if (count * kv_heads != router.num_shared) refuse("shared_heads", "as many of each group", count);
  }
}

RouterOptions checked(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  RouterOptions router = options.router;
  if (options.kind == RouterKind::kQueryNorm) router.scaling = GateScaling::kBinary;
  router.straight_through = options.straight_through != StraightThrough::kNone;
  router_widths(router);  // throws if the counts are inconsistent
  if (options.within_groups) check_groups(options, kv_heads);
  if (options.shared_heads.empty()) return router;
  const auto listed = static_cast<std::int64_t>(options.shared_heads.size());
  if (listed != router.num_shared) {
    throw ValueError(error_message("router", "shared_heads",
                                   "as many as are shared (" + std::to_string(router.num_shared) + ")",
                                   std::to_string(listed)));
  }
  return router;
}

std::unique_ptr<Linear> make_linear(std::int64_t in, std::int64_t out, Placement placement) {
  return out > 0 ? std::make_unique<Linear>(in, out, /*bias=*/false, placement) : nullptr;
}

/// Whether the estimator needs the gradient of every routed head's gate.
bool wants_all_heads(const HeadRoutingOptions& options) {
  return options.router.scaling == GateScaling::kBinary && options.straight_through == StraightThrough::kAll;
}

/// The heads to compute, the same in both runs of a recomputed layer: with other heads, projections would
/// differ by rounding.
Tensor heads_to_compute(const Routing& routing, const HeadRoutingOptions& options) {
  if (!wants_all_heads(options) || !backward_follows()) return routing.selected;
  return full(routing.selected.shape(), 1, DType::kUInt8, routing.selected.device());
}

/// Rows of the longest list if routed heads are selected equally often: that of the KV head whose group has
/// the most shared heads. Each token has `per_token` computed heads.
std::int64_t balanced_longest(const HeadLists& lists, std::int64_t per_token,
                              const HeadRoutingOptions& options) {
  const RouterOptions& router = options.router;
  const std::int64_t group = lists.heads / lists.kv_heads, routed = router.heads - router.num_shared;
  if (routed == 0) return lists.tokens * group;
  std::vector<std::int64_t> shared_of_groups(static_cast<std::size_t>(lists.kv_heads));
  for (const std::int64_t head : query_head_kinds(options).shared)
    ++shared_of_groups[static_cast<std::size_t>(head / group)];
  const std::int64_t shared = std::ranges::max(shared_of_groups);
  const std::int64_t kept = per_token / options.unit_heads - router.num_shared;
  const double load = static_cast<double>(kept) / static_cast<double>(routed);
  return lists.tokens * shared +
         static_cast<std::int64_t>(load * static_cast<double>(lists.tokens * (group - shared)));
}

/// Numbers of units, [N, U], for each of their heads, [N, U unit_heads].
Variable of_each_head(const Variable& units, std::int64_t unit_heads) {
  if (unit_heads == 1) return units;
  const Variable each = repeat_heads(reshape(units, {units.dim(0), units.dim(1), 1, 1}), 0, unit_heads);
  return reshape(each, {units.dim(0), units.dim(1) * unit_heads});
}
/// of_each_head() for uint8.
Tensor of_each_head(const Tensor& units, std::int64_t unit_heads) {
  if (unit_heads == 1) return units;
  const NoGrad no_grad;
  return of_each_head(Variable(units.to(DType::kFloat32)), unit_heads).value().to(DType::kUInt8);
}

HeadLists lists_of(const Tensor& to_compute, std::int64_t kv_heads, std::int64_t per_token,
                   const HeadRoutingOptions& options) {
  HeadLists lists = build_head_lists(to_compute, kv_heads, per_token);
  if (dry_run()) lists.longest = balanced_longest(lists, per_token, options);
  return lists;
}

}  // namespace

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
  if (options_.kind != RouterKind::kLearned) return;
  RouterWidths widths = router_widths(options_.router);
  if (options_.learn_shared_until > 0) {
    masks_ = std::make_unique<SharedMasks>(options_.router.heads, options_.router.num_shared,
                                           options_.learn_shared_until, placement);
    add_children_of(*masks_);
    widths.shared = widths.routed = options_.router.heads;
  }
  placement.dtype = router_dtype(options_.precision, placement.dtype);
  for (auto [name, linear, out] :
       {std::tuple{"wg", &routed_, widths.routed}, std::tuple{"wg_0", &type_, widths.type},
        std::tuple{"wg_1", &shared_, widths.shared}}) {
    *linear = make_linear(width, out, placement);
    if (*linear) add_child(name, **linear);
  }
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

HeadRouter::LearnedHeads HeadRouter::learned_heads() const {
  const Device device = masks_->parameters().front().variable.device();
  const auto rows = [&](const std::vector<std::int64_t>& heads) {
    return tensor_of<std::int64_t>({static_cast<std::int64_t>(heads.size())}, heads).to(device);
  };
  HeadKinds kinds = head_kinds(options());
  const Tensor order = head_order(options_.router.heads, kinds.shared, device);
  const Tensor shared = rows(kinds.shared), routed = rows(kinds.routed);
  return {std::move(kinds), order, shared, routed};
}

/// Logits from the matrices, of which those with a row for each head of the layer are taken at the rows of
/// `heads`, if these are given.
HeadRouter::Logits HeadRouter::learned_logits(const Variable& x, const LearnedHeads* heads) const {
  Logits logits;
  std::vector<Variable> weights;
  std::vector<Variable*> places;
  for (auto [map, place] : {std::pair{&routed_, &logits.routed}, std::pair{&type_, &logits.type},
                            std::pair{&shared_, &logits.shared}}) {
    if (!*map) continue;
    Variable weight = (*map)->weight();
    if (heads != nullptr && map == &shared_) {
      if (heads->kinds.shared.size() == 1) continue;  // its gate needs no logit
      weight = embedding(weight, heads->shared_rows);
    } else if (heads != nullptr && map == &routed_) {
      weight = embedding(weight, heads->routed_rows);
    }
    weights.push_back(weight);
    places.push_back(place);
  }
  if (weights.empty()) return logits;
  const std::vector<Variable> results = linears(x, weights, {}, accumulate_dtype(x.dtype()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    *places[i] = reshape(results[i], {x.dim(0) * x.dim(1), -1});
  }
  return logits;
}

/// Adds the statistics of a layer in training. While shared heads are learned a token's kept heads are no
/// list, and have no margin.
void HeadRouter::add_statistics(HeadChoice& choice, const Logits& logits) const {
  const Tensor& top = choice.routing.top;
  choice.two_stage = logits.type.defined();
  choice.refuses = top.defined() && logits.routed.defined() && top.dim(1) < logits.routed.dim(1);
  if (!choice.two_stage && !choice.refuses) return;
  choice.statistics = router_statistics(choice.refuses ? logits.routed.value() : Tensor(),
                                        choice.two_stage ? logits.type.value() : Tensor(),
                                        choice.refuses ? top : Tensor(), options_.router.groups);
}

/// Routing with masks that are drawn anew. They decide how many heads are routed; of these, as large a share
/// is kept as when the wanted number of heads is shared.
HeadChoice HeadRouter::masked_choice(const Variable& x, Generator& draws, const Tensor& balance_load) const {
  const std::int64_t batch = x.dim(0), length = x.dim(1), heads = options_.router.heads;
  const RouterOptions& router = options_.router;
  const Logits logits = learned_logits(x, nullptr);
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
  choice.lists_of_heads = lists_of_heads(to_compute, choice.lists.num_rows(), choice.lists, heads);
  choice.routing = {masked.gates, masked.balance, masked.selected, {}, {}, masked.load};
  if (options_.z_loss) choice.z_loss = router_z_loss(logits.routed);
  choice.computed_heads = heads;
  choice.heads_each = masked.heads_each;
  if (options_.top_k_anneal_until > 0) choice.top_k = masked.top_k;
  add_statistics(choice, logits);
  return choice;
}

HeadChoice HeadRouter::operator()(const Variable& x, const Variable& q, const ForwardContext& context,
                                  std::int64_t layer) const {
  Generator* const draws = context.draws();
  if (masks_ && masks_->learning() && draws != nullptr)
    return masked_choice(x, *draws, context.balance_load_of(layer));
  HeadRoutingOptions now = options_;
  if (context.training) now.router.top_k = annealed_top_k(options_, progress_);
  const std::int64_t batch = x.dim(0), length = x.dim(1), units = now.router.heads, heads = now.query_heads();
  std::optional<LearnedHeads> found;
  if (masks_ && !(fixed_ && draws != nullptr)) found = learned_heads();
  const LearnedHeads* learned = found ? &*found : fixed_ ? &*fixed_ : nullptr;
  const Tensor order = learned != nullptr ? learned->order : order_;
  Logits logits = learned_logits(x, learned);
  if (now.kind == RouterKind::kQueryNorm && now.router.top_k > 0) {
    logits.routed = query_norm_logits(reshape(q, {batch * length, units, -1}), now.router.num_shared, order_);
  }
  Routing routing = route_heads(logits.shared, logits.routed, logits.type, batch * length, now.router, order,
                                context.forced_top_of(layer), x.device(), context.balance_load_of(layer));
  const Shape per_token{batch, length, heads};
  const Tensor units_to_compute = heads_to_compute(routing, now);
  const bool all = !units_to_compute.shares_storage_with(routing.selected);
  const Tensor to_compute = of_each_head(units_to_compute, now.unit_heads).reshape(per_token);
  const std::int64_t heads_each = all ? heads : now.unit_heads * (now.router.num_shared + now.router.top_k);
  HeadLists lists;
  if (!now.within_groups) lists = lists_of(to_compute, kv_heads_, heads_each, now);
  const std::int64_t num_pairs = now.within_groups ? batch * length * heads_each : lists.num_rows();
  HeadLists of_heads =
      context.equal_rows ? HeadLists{} : lists_of_heads(to_compute, num_pairs, lists, heads_each);
  Variable gates = reshape(of_each_head(routing.gates, now.unit_heads), per_token);
  const Variable z_loss =
      options_.z_loss && logits.routed.defined() ? router_z_loss(logits.routed) : Variable();
  HeadChoice choice{std::move(gates),   std::move(lists), std::move(of_heads),
                    std::move(routing), z_loss,           heads_each};
  choice.pairs = to_compute;
  if (now.within_groups) choice.slots = head_slots(to_compute, kv_heads_, heads_each / kv_heads_);
  if (context.training) add_statistics(choice, logits);
  if (context.training && options_.top_k_anneal_until > 0) {
    const auto number = [&](std::int64_t count) {
      return full({}, static_cast<double>(count), DType::kFloat64, x.device());
    };
    choice.heads_each = number(heads_each);
    choice.top_k = number(now.router.top_k);
  }
  return choice;
}

HeadLists HeadRouter::lists_of_heads(const Tensor& to_compute, std::int64_t num_pairs, const HeadLists& lists,
                                     std::int64_t per_token) const {
  if (to_compute.device() != kCpu) return {};  // dense projections are faster on a GPU
  const double active = static_cast<double>(num_pairs) / static_cast<double>(to_compute.numel());
  if (!head_projection_pays(to_compute.dim(0) * to_compute.dim(1), head_dim_, active)) return {};
  const std::int64_t heads = to_compute.dim(2);
  return lists.rows.defined() && lists.kv_heads == heads ? lists
                                                         : lists_of(to_compute, heads, per_token, options_);
}

Variable attend(const Variable& q, const Variable& k, const Variable& v, const HeadChoice* choice,
                const AttentionOptions& options) {
  if (choice == nullptr) return attention(q, k, v, options);
  if (!choice->slots.defined()) return head_sparse_attention(q, k, v, choice->gates, choice->lists, options);
  const Variable of_slots = attention(gather_heads(q, choice->slots), k, v, options);
  return scatter_heads(of_slots, choice->gates, choice->slots);
}

Variable to_heads(const Linear& map, const Variable& x, std::int64_t head_dim, const HeadChoice* choice) {
  if (choice && choice->projects_chosen_heads()) {
    return project_to_heads(x, map.weight(), map.bias(), choice->lists_of_heads, head_dim);
  }
  return reshape(map(x), {x.dim(0), x.dim(1), -1, head_dim});
}

Variable from_heads(const Linear& map, const Variable& heads, const HeadChoice* choice) {
  if (choice && choice->projects_chosen_heads()) {
    return project_from_heads(heads, map.weight(), map.bias(), choice->lists_of_heads);
  }
  return map(reshape(heads, {heads.dim(0), heads.dim(1), -1}));
}

Variable scaled_heads(const Variable& heads, const Variable& scales) {
  return scales.defined() ? scale_heads(heads, scales) : heads;
}

LayerRouting summarize(const HeadChoice& choice) {
  return {choice.routing.balance, choice.routing.load, choice.z_loss, choice.computed_heads,
          choice.gates.dim(2),    choice.heads_each,   choice.top_k,  choice.statistics,
          choice.two_stage,       choice.refuses};
}

}  // namespace moh
