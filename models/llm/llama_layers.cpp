#include "models/llm/llama_layers.h"

#include <algorithm>
#include <utility>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/parallel.h"
#include "models/layers/attention_observer.h"
#include "models/layers/dropped.h"
#include "ops/activation/swiglu.h"
#include "ops/attention/attention.h"
#include "ops/attention/decode.h"
#include "ops/elementwise/add.h"
#include "ops/rope/norm_rope.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

/// Queries or keys, normalised where there is a norm, at their positions.
Variable rotated(const Variable& heads, const std::optional<RmsNorm>& norm, const RopeTable& table,
                 const Tensor& starts) {
  return norm ? norm_rope(heads, norm->weight(), norm->eps(), table, starts) : rope(heads, table, starts);
}

/// Where rotary positions begin anew; undefined: nowhere.
Tensor positions_from(const ForwardContext& context) {
  return context.reset_positions ? context.document_starts : Tensor();
}

/// The pairs of a choice that attention reads; undefined: all.
Tensor selected_of(const std::optional<HeadChoice>& choice) {
  return choice ? choice->pairs : Tensor();
}

/// The normalised values are computed again from the sum, which is kept.
void recompute_norm(const AddedAndNormed& of, const RmsNorm& norm) {
  recompute_when_read(of.normed, [&norm, sum = of.sum.detach()] { return norm(sum); });
}

}  // namespace

LlamaAttention::LlamaAttention(const LlamaConfig& c, std::int64_t layer, Placement placement)
    : LlamaAttention(c, layer, placement,
                     adjoining_parameters(c.hidden,
                                          {c.heads * c.head_dim, c.kv_heads * c.head_dim,
                                           c.kv_heads * c.switch_head.per_head() * c.head_dim},
                                          c.qkv_bias, placement)) {}

LlamaAttention::LlamaAttention(const LlamaConfig& c, std::int64_t layer, Placement placement,
                               const std::vector<LinearParameterPair>& qkv)
    : recompute_(c.recompute),
      layer_(layer),
      heads_(c.heads),
      kv_heads_(c.kv_heads),
      head_dim_(c.head_dim),
      window_(c.sliding_window.at(layer)),
      q_proj_(qkv[0]),
      k_proj_(qkv[1]),
      v_proj_(qkv[2]),
      o_proj_(routing_of(c, layer).outputs() * c.switch_head.per_head() * c.head_dim, c.hidden, c.o_bias,
              placement),
      output_gate_(c.attention_gate, c.hidden, c.heads, c.head_dim, placement) {
  add_child("q_proj", q_proj_);
  add_child("k_proj", k_proj_);
  add_child("v_proj", v_proj_);
  add_child("o_proj", o_proj_);
  add_adapters(c.lora, {{"q_proj", &q_proj_}, {"k_proj", &k_proj_}, {"v_proj", &v_proj_}}, placement);
  add_adapters(c.lora, {{"o_proj", &o_proj_}}, placement);
  add_children_of(output_gate_);
  if (c.qk_norm) {
    add_child("q_norm", q_norm_.emplace(c.head_dim, c.norm_eps, placement));
    add_child("k_norm", k_norm_.emplace(c.head_dim, c.norm_eps, placement));
  }
  if (c.switch_head.used())
    add_children_of(
        switch_head_.emplace(c.switch_head, c.hidden, c.heads, c.kv_heads, c.head_dim, placement));
  const HeadRoutingOptions routing = routing_of(c, layer);
  if (!routing.kind->routes()) return;
  router_.emplace(c.hidden, c.kv_heads, c.head_dim, routing, placement);
  add_children_of(*router_);
  if (c.moh.routed == RoutedRows::kQueriesKeysValues) routed_keys_.emplace(c, layer, placement.device);
}

/// Attention of all heads, and attention over lists, read packed projections. Decoding keeps keys and values.
bool LlamaAttention::packs(const Projections& p, const ForwardContext& context) const {
  if (context.equal_rows || context.observer != nullptr || q_norm_ || switch_head_) return false;
  if (!p.choice) return !router_ || context.all_heads;
  return !routed_keys_ && p.choice->rule->lists && !p.choice->projects_chosen_heads();
}

LlamaAttention::Projections LlamaAttention::project(const Variable& x, const RopeTable& table,
                                                    const ForwardContext& context) const {
  const auto heads_of = [&](const Variable& y) { return reshape(y, {x.dim(0), x.dim(1), -1, head_dim_}); };
  const bool routed = router_ && !context.all_heads;
  const bool looks_at_queries = routed && router_->options().kind->reads_queries;
  Projections p;
  const Tensor starts = positions_from(context);
  if (routed && !looks_at_queries) p.choice = (*router_)({.x = x}, context, layer_);
  if (packs(p, context)) {
    p.qkv = packed_heads(x, table, starts, selected_of(p.choice));
    return p;
  }
  if (routed && routed_keys_) {
    p.q = to_heads(q_proj_, x, head_dim_, p.choice ? &*p.choice : nullptr);
    if (looks_at_queries) p.choice = (*router_)({.x = x, .queries = p.q}, context, layer_);
    p.k = to_heads(k_proj_, x, head_dim_, &*p.choice);
    p.v = to_heads(v_proj_, x, head_dim_, &*p.choice);
    return p;
  }
  Variable q;
  if (p.choice && p.choice->projects_chosen_heads()) {
    q = to_heads(q_proj_, x, head_dim_, &*p.choice);
    const std::vector<Variable> kv = apply_each({&k_proj_, &v_proj_}, x);
    p.k = heads_of(kv[0]);
    p.v = heads_of(kv[1]);
  } else if (switch_head_) {
    const std::vector<Variable> qk = apply_each({&q_proj_, &k_proj_}, x);
    q = heads_of(qk[0]);
    p.k = heads_of(qk[1]);
    p.v = switch_head_->values(x, v_proj_, context.equal_rows);
  } else {
    const std::vector<Variable> qkv = apply_each({&q_proj_, &k_proj_, &v_proj_}, x);
    q = heads_of(qkv[0]);
    p.k = heads_of(qkv[1]);
    p.v = heads_of(qkv[2]);
  }
  if (looks_at_queries) p.choice = (*router_)({.x = x, .queries = q}, context, layer_);
  p.q = rotated(q, q_norm_, table, starts);
  p.k = rotated(p.k, k_norm_, table, starts);
  return p;
}

LlamaAttention::Projections LlamaAttention::Projections::detached() const {
  const auto constant = [](const Variable& of) { return of.defined() ? of.detach() : of; };
  return {constant(q), constant(k), constant(v), constant(qkv),
          choice ? std::optional(choice->detached()) : std::nullopt};
}

Variable LlamaAttention::packed_heads(const Variable& x, const RopeTable& table, const Tensor& starts,
                                      const Tensor& selected) const {
  const Variable qkv = apply_packed({&q_proj_, &k_proj_, &v_proj_}, x);
  return rope_packed(reshape(qkv, {x.dim(0), x.dim(1), -1, head_dim_}), heads_ + kv_heads_, table, starts,
                     selected);
}

Variable LlamaAttention::attended(const Projections& p, const AttentionOptions& options) const {
  const HeadChoice* choice = p.choice ? &*p.choice : nullptr;
  if (!p.qkv.defined()) return attend(p.q, p.k, p.v, choice, options);
  if (choice == nullptr) return attention_packed(p.qkv, heads_, kv_heads_, options);
  return head_sparse_attention_packed(p.qkv, choice->gates, choice->lists, options);
}

RoutedKeys::Heads LlamaAttention::routed_heads(const Projections& p) const {
  return {p.q, p.k, p.v, q_norm_ ? &*q_norm_ : nullptr, k_norm_ ? &*k_norm_ : nullptr};
}

void LlamaAttention::show(const ForwardContext& context, const Variable& x, const Projections& p,
                          const Tensor& heads) const {
  const bool routed = has_routed_keys(p);  // then a head's scores are those of its own sequence
  context.observer->observe({.layer = layer_,
                             .x = x.value(),
                             .q = routed ? Tensor() : p.q.value(),
                             .k = routed ? Tensor() : p.k.value(),
                             .v = routed ? Tensor() : p.v.value(),
                             .heads = heads,
                             .output = has_heads(p) && !switch_head_ ? o_proj_.whole_weight() : Tensor(),
                             .window = window_,
                             .document_starts = context.document_starts,
                             .choice = p.choice ? &*p.choice : nullptr});
}

LayerOutput LlamaAttention::forward(const Variable& x, const RopeTable& table,
                                    const ForwardContext& context) const {
  const Projections p = project(x, table, context);
  const AttentionOptions causal{.window = window_ < x.dim(1) ? window_ : 0,  // else it hides nothing
                                .document_starts = context.document_starts};
  const HeadChoice* choice = p.choice ? &*p.choice : nullptr;
  const Variable heads = has_routed_keys(p) ? routed_keys_->forward(routed_heads(p), table, *choice, context)
                                            : attended(p, causal);
  const Variable out = scaled_heads(output_gate_(x, heads), context.head_scales_of(layer_));
  if (context.observer != nullptr)
    show(context, x, p, has_heads(p) ? out.value() : heads_in_slots(p.q, p.k, p.v, *choice, causal));
  LayerOutput output{projected(x, out, p, context.equal_rows), {}};
  if (recomputes_attention(recompute_) && !has_routed_keys(p)) {
    const auto again = [this, p = p.detached(), causal] { return attended(p, causal); };
    if (p.qkv.defined()) {
      recompute_when_read(
          p.qkv, [this, x = x.detach(), table, starts = positions_from(context),
                  selected = selected_of(p.choice)] { return packed_heads(x, table, starts, selected); });
    }
    recompute_when_read(heads, again);
  }
  if (p.choice) output.routing = summarize(*p.choice);
  return output;
}

Tensor LlamaAttention::attend_cache(const Tensor& q, const LayerCache::Keys& keys,
                                    const HeadChoice* choice) const {
  const AttentionOptions causal{.window = window_};
  if (choice == nullptr) return attention_decode(q, keys.k, keys.v, keys.count, {}, {}, causal);
  return choice->rule->decode({q, keys.k, keys.v, keys.count}, *choice, causal);
}

Variable LlamaAttention::decode(const Variable& x, const RopeTable& table, LayerCache& cache) const {
  const NoGrad no_grad;
  const Projections p = project(x, table, {.equal_rows = true});
  if (has_routed_keys(p)) {
    const Tensor heads =
        routed_keys_->decode(routed_heads(p), table, p.choice->gates.value(), p.choice->lists, cache);
    return decoded(x, heads, p);
  }
  const LayerCache::Keys keys = cache.append(p.k.value(), p.v.value());
  const HeadChoice* choice = p.choice ? &*p.choice : nullptr;
  return decoded(x, attend_cache(p.q.value(), keys, choice), p);
}

Variable LlamaAttention::decoded(const Variable& x, const Tensor& heads, const Projections& p) const {
  return projected(x, output_gate_(x, Variable(heads)), p, /*equal_rows=*/true);
}

Variable LlamaAttention::projected(const Variable& x, const Variable& heads, const Projections& p,
                                   bool equal_rows) const {
  if (switch_head_) return switch_head_->output(x, heads, o_proj_, equal_rows);
  return from_heads(o_proj_, heads, p.choice ? &*p.choice : nullptr);
}

Tensor LlamaAttention::decode_piece(const Projections& p, const RopeTable& table,
                                    const PieceOfText& piece) const {
  const std::int64_t end = piece.begin + piece.count;
  const auto rows = [&](const Tensor& of_tokens) {
    const Tensor of_piece = of_tokens.select(0).slice(piece.begin, end);
    return of_tokens.rank() == 3 ? of_piece.reshape({1, piece.count, of_tokens.dim(2)})
                                 : of_piece.reshape({1, piece.count, of_tokens.dim(2), of_tokens.dim(3)});
  };
  if (has_routed_keys(p)) {
    RoutedKeys::Heads heads = routed_heads(p);
    for (Variable* of : {&heads.q, &heads.k, &heads.v}) *of = Variable(rows(of->value()));
    const HeadLists lists = build_head_lists(rows(p.choice->pairs), p.q.dim(2), p.choice->computed_heads);
    return routed_keys_->decode(heads, routed_keys_->rows_of_piece(table, piece.begin, piece.count),
                                rows(p.choice->gates.value()), lists, *piece.cache);
  }
  const LayerCache::Keys keys = piece.cache->append(rows(p.k.value()), rows(p.v.value()));
  if (!p.choice) return attend_cache(rows(p.q.value()), keys, nullptr);
  HeadChoice of_piece;
  of_piece.gates = Variable(rows(p.choice->gates.value()));
  of_piece.pairs = rows(p.choice->pairs);
  of_piece.computed_heads = p.choice->computed_heads;
  of_piece.rule = p.choice->rule;
  of_piece.rule->lay_out(of_piece, p.k.dim(2), router_->options());
  return attend_cache(rows(p.q.value()), keys, &of_piece);
}

Variable LlamaAttention::decode_each(const Variable& x, const RopeTable& table,
                                     std::span<const PieceOfText> pieces) const {
  const NoGrad no_grad;
  const Projections p = project(x, table, {.equal_rows = true});
  const std::int64_t outputs = router_ ? router_->options().outputs() : p.q.dim(2);
  const Tensor out = empty({1, x.dim(1), outputs, head_dim_}, x.dtype(), x.device());
  const auto decode_pieces = [&](std::span<const PieceOfText> some) {
    for (const PieceOfText& piece : some) {
      const Tensor heads = decode_piece(p, table, piece);
      out.select(0).slice(piece.begin, piece.begin + piece.count).copy_from(heads.select(0));
    }
  };
  // With as many short pieces as threads, each thread takes pieces of its own; else threads share one.
  constexpr std::int64_t kShort = 16;
  const auto is_short = [](const PieceOfText& piece) { return piece.count <= kShort; };
  const auto texts = static_cast<std::int64_t>(pieces.size());
  if (x.device() == kCpu && texts >= num_threads() && std::ranges::all_of(pieces, is_short)) {
    parallel_for(texts, 1, [&](std::int64_t begin, std::int64_t end) {
      decode_pieces(pieces.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    });
  } else {
    decode_pieces(pieces);
  }
  return decoded(x, out, p);
}

LlamaMlp::LlamaMlp(const LlamaConfig& c, Placement placement)
    : LlamaMlp(c, placement,
               adjoining_parameters(c.hidden, {c.intermediate, c.intermediate}, c.mlp_bias, placement)) {}

LlamaMlp::LlamaMlp(const LlamaConfig& c, Placement placement, const std::vector<LinearParameterPair>& gate_up)
    : recompute_(c.recompute),
      gate_proj_(gate_up[0]),
      up_proj_(gate_up[1]),
      down_proj_(c.intermediate, c.hidden, c.mlp_bias, placement) {
  add_child("gate_proj", gate_proj_);
  add_child("up_proj", up_proj_);
  add_child("down_proj", down_proj_);
  add_adapters(c.lora, {{"gate_proj", &gate_proj_}, {"up_proj", &up_proj_}}, placement);
  add_adapters(c.lora, {{"down_proj", &down_proj_}}, placement);
}

Variable LlamaMlp::operator()(const Variable& x) const {
  const auto first_of = [this](const Variable& in) { return apply_packed({&gate_proj_, &up_proj_}, in); };
  const Variable gate_up = first_of(x), inner = swiglu(gate_up);
  Variable y = down_proj_(inner);
  if (recomputes_mlp(recompute_)) recompute_when_read(gate_up, [=, x = x.detach()] { return first_of(x); });
  if (recomputes_norms(recompute_))
    recompute_when_read(inner, [gate_up = gate_up.detach()] { return swiglu(gate_up); });
  return y;
}

LlamaLayer::LlamaLayer(const LlamaConfig& c, std::int64_t layer, Placement placement)
    : dropout_(c.dropout),
      recompute_(c.recompute),
      input_layernorm_(c.hidden, c.norm_eps, placement),
      self_attn_(c, layer, placement),
      post_attention_layernorm_(c.hidden, c.norm_eps, placement),
      mlp_(c, placement) {
  add_child("input_layernorm", input_layernorm_);
  add_child("self_attn", self_attn_);
  add_child("post_attention_layernorm", post_attention_layernorm_);
  add_child("mlp", mlp_);
}

StreamOutput LlamaLayer::forward(ResidualStream stream, const RopeTable& table,
                                 const ForwardContext& context) const {
  const AddedAndNormed input = std::exchange(stream, {}).normed(input_layernorm_);
  LayerOutput attention = self_attn_.forward(input.normed, table, context);
  const AddedAndNormed of_mlp =
      ResidualStream{input.sum, {dropped(std::exchange(attention.y, {}), dropout_, context)}}.normed(
          post_attention_layernorm_);
  const Variable mlp = mlp_(of_mlp.normed);
  if (recomputes_norms(recompute_)) {
    recompute_norm(input, input_layernorm_);
    recompute_norm(of_mlp, post_attention_layernorm_);
  }
  return {{of_mlp.sum, {dropped(mlp, dropout_, context)}}, std::move(attention.routing)};
}

Variable LlamaLayer::decode(const Variable& x, const RopeTable& table, LayerCache& cache) const {
  return after_attention(x, self_attn_.decode(input_layernorm_(x), table, cache));
}

Variable LlamaLayer::decode_each(const Variable& x, const RopeTable& table,
                                 std::span<const PieceOfText> pieces) const {
  return after_attention(x, self_attn_.decode_each(input_layernorm_(x), table, pieces));
}

Variable LlamaLayer::after_attention(const Variable& x, const Variable& attention) const {
  const auto [h, normed] = post_attention_layernorm_.after_adding(x, {attention});
  return add(h, mlp_(normed));
}

}  // namespace moh
