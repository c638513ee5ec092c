#include "models/vision/transnext_attention.h"

#include <string>
#include <utility>

#include "autograd/recompute.h"
#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "models/vision/transnext_patterns.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/attention/aggregated_attention.h"
#include "ops/attention/position_bias.h"
#include "ops/pool/adaptive_avg_pool.h"
#include "ops/shape/repeat_heads.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

constexpr std::int64_t kBiasHidden = 512;
constexpr double kPooledEps = 1e-5;

TransNextAttentionOptions checked(const TransNextAttentionOptions& o) {
  require_packed("transnext_attention", o.routing, {});
  for (const auto& [name, value] : {std::pair{"heads", o.heads}, std::pair{"head_dim", o.head_dim}}) {
    if (value < 1)
      throw ValueError(error_message("transnext_attention", name, "1 or more", std::to_string(value)));
  }
  return o;
}

}  // namespace

TransNextAttention::Window::Window(const TransNextAttentionOptions& o, Placement placement) {
  const std::int64_t count = o.window * o.window, d = o.head_dim;
  bias = add_parameter("relative_pos_bias_local", {o.heads, count}, placement);
  tokens = add_parameter("learnable_tokens", {o.heads, d, count}, placement);
  token_bias = add_parameter("learnable_bias", {o.heads, 1, count}, placement);
}

namespace {

/// Width of the keys of all heads, or of the only one.
std::int64_t key_width(const TransNextAttentionOptions& o) {
  return o.single_kv_head ? o.head_dim : o.heads * o.head_dim;
}

}  // namespace

TransNextAttention::Pool::Pool(const TransNextAttentionOptions& o, Placement placement)
    : q(o.width, o.heads * o.head_dim, true, placement),
      kv(o.width, 2 * key_width(o), true, placement),
      sr(o.width, o.width, 1, {}, placement),
      norm(o.width, kPooledEps, placement) {
  add_child("q", q);
  add_child("kv", kv);
  add_child("sr", sr);
  add_child("norm", norm);
}

TransNextAttention::TransNextAttention(const TransNextAttentionOptions& o, Placement placement)
    : options_(checked(o)),
      temperature_(add_parameter("temperature", {o.heads, 1, 1}, placement)),
      query_embedding_(add_parameter("query_embedding", {o.heads, 1, o.head_dim}, placement)),
      proj_(o.heads * o.head_dim, o.width, true, placement),
      cpb_fc1_(2, kBiasHidden, true, placement),
      cpb_fc2_(kBiasHidden, o.heads, true, placement),
      output_gate_(o.gate, o.width, o.heads, o.head_dim, placement) {
  if (o.window > 0) {
    window_ = std::make_unique<Window>(o, placement);
    pool_ = std::make_unique<Pool>(o, placement);
    add_children_of(*window_);
    add_children_of(*pool_);
  } else {
    qkv_ = std::make_unique<Linear>(o.width, o.heads * o.head_dim + 2 * key_width(o), true, placement);
    add_child("qkv", *qkv_);
  }
  add_child("proj", proj_);
  add_children_of(output_gate_);
  add_child("cpb_fc1", cpb_fc1_);
  add_child("cpb_fc2", cpb_fc2_);
  if (!o.routing.kind->routes()) return;
  router_.emplace(o.width, o.heads, o.head_dim, o.routing, placement);
  add_children_of(*router_);
}

/// Keys and values [B, M, 2 H, d] from those of the projection kv [B, M, ...].
Variable TransNextAttention::kv_heads_of(const Variable& kv) const {
  const std::int64_t d = options_.head_dim;
  const Variable heads = reshape(kv, {kv.dim(0), kv.dim(1), -1, d});
  return options_.single_kv_head ? repeat_heads(heads, 0, options_.heads) : heads;
}

/// Keys and values of pooled tokens, [B, M, 2 H, d].
Variable TransNextAttention::pooled(const Variable& x, const StageGrid& grid) const {
  const Variable image = reshape(x, {x.dim(0), grid.tokens.height, grid.tokens.width, options_.width});
  const Variable cells =
      adaptive_avg_pool(gelu(pool_->sr(image), GeluForm::kExact), grid.pooled.height, grid.pooled.width);
  const Variable kv = pool_->kv(pool_->norm(cells));
  return kv_heads_of(reshape(kv, {x.dim(0), grid.pooled.tokens(), -1}));
}

TransNextAttention::Operands TransNextAttention::operands_of(const Variable& x, const StageGrid& grid,
                                                             const HeadChoice* choice) const {
  const Variable biases = cpb_fc2_(relu(cpb_fc1_(Variable(grid.positions.coordinates))));
  Operands in;
  in.cosine = {query_embedding_, temperature_, position_bias(biases, grid.positions.index)};
  in.q = queries_of(x, choice);
  if (pool_) {
    in.local = kv_heads_of(pool_->kv(x));
    in.pooled = pooled(x, grid);
  }
  return in;
}

/// Operands::q.
Variable TransNextAttention::queries_of(const Variable& x, const HeadChoice* choice) const {
  const Variable q = to_heads(pool_ ? pool_->q : *qkv_, x, options_.head_dim, choice);
  return !pool_ && options_.single_kv_head ? repeat_heads(q, options_.heads, options_.heads) : q;
}

void TransNextAttention::recompute(const Variable& x, const StageGrid& grid, const Operands& in,
                                   const Variable& heads, const HeadChoice* choice) const {
  if (!recomputes_attention(options_.recompute)) return;
  const ConstantChoice constant(choice);
  const auto value_of = [](const Variable& v) { return v.defined() ? v.detach() : v; };
  const Variable input = x.detach();
  const Operands kept{value_of(in.q),
                      value_of(in.local),
                      value_of(in.pooled),
                      {value_of(in.cosine.query_embedding), value_of(in.cosine.temperature),
                       value_of(in.cosine.position_bias)}};
  recompute_when_read(in.q, [=, this] { return queries_of(input, constant.get()); });
  if (pool_) recompute_when_read(in.local, [=, this] { return kv_heads_of(pool_->kv(input)); });
  recompute_when_read(heads, [=, this] { return heads_of(kept, grid, constant.get()); });
}

Variable TransNextAttention::heads_of(const Operands& in, const StageGrid& grid,
                                      const HeadChoice* choice) const {
  SelectedPairs selected;
  if (choice != nullptr) selected = {choice->gates, choice->lists};
  selected.kept_percent = options_.kept_keys;
  if (!pool_) return cosine_attention_packed(in.q, in.cosine, selected);
  return aggregated_attention(in.q, in.local, in.pooled, in.cosine,
                              {window_->bias, window_->tokens, window_->token_bias},
                              {grid.tokens.height, grid.tokens.width, options_.window}, selected);
}

void TransNextAttention::show(AttentionObserver& observer, const Variable& x, const StageGrid& grid,
                              const Operands& in, const Variable& heads, const HeadChoice* choice) const {
  AttentionPatterns patterns{.q = in.q.value(),
                             .pooled = pool_ ? in.pooled.value() : in.q.value(),
                             .first_key = pool_ ? 0 : options_.heads,
                             .query_embedding = in.cosine.query_embedding.value(),
                             .temperature = in.cosine.temperature.value(),
                             .position_bias = in.cosine.position_bias.value(),
                             .grid = {grid.tokens.height, grid.tokens.width, options_.window},
                             .kept_percent = options_.kept_keys};
  if (pool_) {
    patterns.local = in.local.value();
    patterns.window_bias = window_->bias.value();
  }
  observer.observe({.layer = options_.layer,
                    .x = x.value(),
                    .heads = heads.value(),
                    .output = proj_.weight().value(),
                    .causal = false,
                    .choice = choice,
                    .patterns = [patterns](std::int64_t image) { return patterns.of_image(image); }});
}

LayerOutput TransNextAttention::forward(const Variable& x, const StageGrid& grid,
                                        const ForwardContext& context) const {
  std::optional<HeadChoice> choice;
  if (router_ && !context.all_heads) choice = (*router_)({.x = x}, context, options_.layer);
  const HeadChoice* chosen = choice ? &*choice : nullptr;
  const Operands in = operands_of(x, grid, chosen);
  const Variable attended = heads_of(in, grid, chosen);
  const Variable heads = scaled_heads(output_gate_(x, attended), context.head_scales_of(options_.layer));
  if (context.observer != nullptr) show(*context.observer, x, grid, in, heads, chosen);
  LayerOutput output{from_heads(proj_, heads, chosen), {}, {}};
  recompute(x, grid, in, attended, chosen);
  if (choice) output.routing = summarize(*choice);
  return output;
}

}  // namespace moh
