#include "train/plan/planned_llama.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "models/llm/llama_flops.h"
#include "ops/moh/head_projection.h"

namespace moh {

namespace {

/// Rows of the longest list of a layer: the KV head whose group has the most heads that are always on, and of
/// the others as many as a balanced router selects.
std::int64_t longest_list(const HeadRoutingOptions& routing, std::int64_t attended, std::int64_t tokens,
                          std::int64_t group) {
  const RouterOptions& router = routing.router;
  const std::int64_t experts = router.heads - router.shared;
  if (experts == 0) return tokens * group;
  std::vector<std::int64_t> shared_of_groups(static_cast<std::size_t>(router.heads / group));
  for (const std::int64_t head : head_kinds(routing).shared)
    ++shared_of_groups[static_cast<std::size_t>(head / group)];
  const std::int64_t shared = std::ranges::max(shared_of_groups);
  const double load = static_cast<double>(attended - router.shared) / static_cast<double>(experts);
  return tokens * shared + static_cast<std::int64_t>(load * static_cast<double>(tokens * (group - shared)));
}

}  // namespace

PlannedLlama::PlannedLlama(const LlamaConfig& config, const PlannedOps& ops, DType dtype)
    : config_(config), ops_(ops), dtype_(dtype) {
  check(config);
  embed_tokens_ = parameter(config.vocab_size * config.hidden);
  for (std::int64_t i = 0; i < config.layers; ++i) layers_.push_back(make_layer(i));
  norm_ = parameter(config.hidden);
  lm_head_ = config.tied_embeddings ? embed_tokens_ : parameter(config.vocab_size * config.hidden);
  rope_cos_ = ops.tensor(config.max_positions * config.head_dim / 2, DType::kFloat32);
  rope_sin_ = rope_cos_.like();
}

PlannedVariable PlannedLlama::parameter(std::int64_t numel) {
  return parameters_.emplace_back(ops_.parameter(numel, dtype_));
}

PlannedVariable PlannedLlama::router_parameter(std::int64_t rows) {
  const DType dtype = router_dtype(config_.moh.router_precision, dtype_);
  return parameters_.emplace_back(ops_.parameter(rows * config_.hidden, dtype));
}

PlannedLlama::Layer PlannedLlama::make_layer(std::int64_t number) {
  const std::int64_t queries = config_.heads * config_.head_dim, keys = config_.kv_heads * config_.head_dim;
  Layer layer;
  layer.routing = routing_of(config_, number);
  if (!layer.routing.shared_heads.empty()) layer.head_order = ops_.tensor(config_.heads, DType::kInt32);
  layer.input_norm = parameter(config_.hidden);
  layer.q = parameter(queries * config_.hidden);
  layer.k = parameter(keys * config_.hidden);
  layer.v = parameter(keys * config_.hidden);
  layer.o = parameter(queries * config_.hidden);
  if (layer.routing.kind == RouterKind::kLearned) {
    const RouterWidths widths = router_widths(layer.routing.router);
    if (widths.routed > 0) layer.wg = router_parameter(widths.routed);
    if (widths.type > 0) layer.wg_0 = router_parameter(widths.type);
    if (widths.shared > 0) layer.wg_1 = router_parameter(widths.shared);
  }
  layer.post_norm = parameter(config_.hidden);
  layer.gate = parameter(config_.intermediate * config_.hidden);
  layer.up = parameter(config_.intermediate * config_.hidden);
  layer.down = parameter(config_.intermediate * config_.hidden);
  return layer;
}

// What follows has the shape of models/llm/llama.cpp, llama_layers.cpp and layers/head_routing.cpp, local
// variables included: without recording they decide how long a result lives.

PlannedLlama::Output PlannedLlama::forward(std::int64_t sequences, std::int64_t length, bool training) const {
  const Pass pass{{.batch = sequences,
                   .queries = length,
                   .keys = length,
                   .heads = config_.heads,
                   .kv_heads = config_.kv_heads,
                   .head_dim = config_.head_dim,
                   .causal = true},
                  training};
  PlannedVariable x = ops_.embedding(embed_tokens_, config_.vocab_size, pass.tokens());
  Output output;
  for (const Layer& layer : layers_) {
    LayerOutput result = run_layer(layer, x, pass);
    x = std::move(result.y);
    if (!result.balance.defined()) continue;
    output.balances.push_back(std::move(result.balance));
    output.loads.push_back(std::move(result.load));
  }
  output.logits = ops_.linear(ops_.rms_norm(x, norm_), lm_head_, pass.tokens());
  return output;
}

PlannedLlama::LayerOutput PlannedLlama::run_layer(const Layer& layer, const PlannedVariable& x,
                                                  const Pass& pass) const {
  if (!config_.recompute || !grad_enabled()) return layer_forward(layer, x, pass);
  const std::vector<PlannedVariable> outputs = planned_checkpoint(
      [this, &layer, pass](const std::vector<PlannedVariable>& in) -> std::vector<PlannedVariable> {
        const LayerOutput result = layer_forward(layer, in[0], pass);
        if (!result.balance.defined()) return {result.y};
        return {result.y, result.balance, PlannedVariable(result.load)};
      },
      {x});
  if (outputs.size() == 1) return {outputs[0], {}, {}};
  return {outputs[0], outputs[1], outputs[2].value()};
}

PlannedLlama::LayerOutput PlannedLlama::layer_forward(const Layer& layer, const PlannedVariable& x,
                                                      const Pass& pass) const {
  LayerOutput result = attention(layer, ops_.rms_norm(x, layer.input_norm), pass);
  const auto [h, normed] = ops_.add_rms_norm(x, dropped(result.y, pass), layer.post_norm);
  return {ops_.add(h, dropped(mlp(layer, normed, pass), pass)), result.balance, result.load};
}

PlannedVariable PlannedLlama::mlp(const Layer& layer, const PlannedVariable& x, const Pass& pass) const {
  const std::vector<PlannedVariable> gate_up = ops_.linears(x, {layer.gate, layer.up}, pass.tokens());
  return ops_.linear(ops_.swiglu(gate_up[0], gate_up[1]), layer.down, pass.tokens());
}

PlannedVariable PlannedLlama::dropped(const PlannedVariable& branch, const Pass& pass) const {
  return pass.training && config_.dropout > 0 ? ops_.map(branch) : branch;
}

PlannedLlama::LayerOutput PlannedLlama::attention(const Layer& layer, const PlannedVariable& x,
                                                  const Pass& pass) const {
  const Projections p = project(layer, x, pass);
  const PlannedLists all{.num_rows = pass.tokens() * config_.heads,
                         .longest = pass.shape.queries * config_.heads / config_.kv_heads};
  const PlannedVariable out =
      p.choice ? ops_.attention(p.q, p.k, p.v, p.choice->gates, p.choice->lists, pass.shape)
               : ops_.attention(p.q, p.k, p.v, {}, all, pass.shape);
  LayerOutput output;
  if (p.choice && p.choice->lists_of_heads.defined()) {
    output.y = ops_.project_from_heads(out, layer.o, p.choice->lists_of_heads, pass.shape);
  } else {
    output.y = ops_.linear(ops_.reshape(out), layer.o, pass.tokens());
  }
  if (p.choice) {
    output.balance = p.choice->routing.balance;
    output.load = p.choice->routing.load;
  }
  return output;
}

PlannedLlama::Projections PlannedLlama::project(const Layer& layer, const PlannedVariable& x,
                                                const Pass& pass) const {
  Projections p;
  if (layer.routing.kind == RouterKind::kLearned) p.choice = choose_heads(layer, x, {}, pass);
  PlannedVariable q;
  if (p.choice && p.choice->lists_of_heads.defined()) {
    q = ops_.project_to_heads(x, layer.q, p.choice->lists_of_heads, pass.shape);
    const std::vector<PlannedVariable> kv = ops_.linears(x, {layer.k, layer.v}, pass.tokens());
    p.k = ops_.reshape(kv[0]);
    p.v = ops_.reshape(kv[1]);
  } else {
    const std::vector<PlannedVariable> qkv = ops_.linears(x, {layer.q, layer.k, layer.v}, pass.tokens());
    q = ops_.reshape(qkv[0]);
    p.k = ops_.reshape(qkv[1]);
    p.v = ops_.reshape(qkv[2]);
  }
  if (layer.routing.kind == RouterKind::kQueryNorm) p.choice = choose_heads(layer, x, q, pass);
  p.q = ops_.map(q);
  p.k = ops_.map(p.k);
  return p;
}

PlannedLlama::HeadChoice PlannedLlama::choose_heads(const Layer& layer, const PlannedVariable& x,
                                                    const PlannedVariable& q, const Pass& pass) const {
  const RouterOptions& router = layer.routing.router;
  const std::int64_t tokens = pass.tokens(), attended = attended_heads(layer.routing);
  PlannedVariable routed, type, shared;
  std::vector<PlannedVariable> weights;
  std::vector<PlannedVariable*> places;
  for (const auto& [weight, place] :
       {std::pair{&layer.wg, &routed}, std::pair{&layer.wg_0, &type}, std::pair{&layer.wg_1, &shared}}) {
    if (!weight->defined()) continue;
    weights.push_back(*weight);
    places.push_back(place);
  }
  if (!weights.empty()) {
    const std::vector<PlannedVariable> logits = ops_.linears(x, weights, tokens, DType::kFloat32);
    for (std::size_t i = 0; i < logits.size(); ++i) *places[i] = ops_.reshape(logits[i]);
  }
  if (q.defined() && router.top_k > 0) {
    routed = ops_.query_norm(ops_.reshape(q), tokens, router.heads - router.shared);
  }
  HeadChoice choice;
  choice.routing = ops_.route_heads(shared, routed, type, tokens, router);
  const bool all = attended == router.heads && router.top_k < router.heads - router.shared && grad_enabled();
  const PlannedTensor to_compute = all ? choice.routing.selected.like() : choice.routing.selected;
  const auto lists = [&](std::int64_t kv_heads) {
    return PlannedLists{ops_.tensor(tokens * attended, DType::kInt32),
                        ops_.tensor(pass.shape.batch * kv_heads + 1, DType::kInt64), tokens * attended,
                        longest_list(layer.routing, attended, pass.shape.queries, router.heads / kv_heads)};
  };
  choice.lists = lists(config_.kv_heads);
  const double active = static_cast<double>(attended) / static_cast<double>(router.heads);
  if (ops_.on_cpu() && head_projection_pays(tokens, config_.head_dim, active)) {
    choice.lists_of_heads = config_.kv_heads == config_.heads ? choice.lists : lists(config_.heads);
  }
  choice.gates = ops_.reshape(choice.routing.gates);
  return choice;
}

}  // namespace moh
