#include "models/translation/translation_attention.h"

#include <tuple>
#include <vector>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "ops/attention/decode.h"
#include "ops/shape/reshape.h"

namespace moh {

TranslationAttention::TranslationAttention(const TranslationConfig& c, std::int64_t layer,
                                           Placement placement)
    : recompute_(c.recompute),
      layer_(layer),
      head_dim_(c.head_dim),
      dropout_(c.attention_dropout),
      q_proj_(c.hidden, c.heads * c.head_dim, c.attention_bias, placement),
      k_proj_(c.hidden, c.kv_heads * c.head_dim, c.attention_bias, placement),
      v_proj_(c.hidden, c.kv_heads * c.head_dim, c.attention_bias, placement),
      out_proj_(routing_of(c, layer).outputs() * c.head_dim, c.hidden, c.attention_bias, placement),
      output_gate_(c.attention_gate, c.hidden, c.heads, c.head_dim, placement) {
  add_child("q_proj", q_proj_);
  add_child("k_proj", k_proj_);
  add_child("v_proj", v_proj_);
  add_child("out_proj", out_proj_);
  add_children_of(output_gate_);
  const HeadRoutingOptions routing = routing_of(c, layer);
  if (!routing.kind->routes()) return;
  router_.emplace(c.hidden, c.kv_heads, c.head_dim, routing, placement);
  add_children_of(*router_);
}

TranslationAttention::Projections TranslationAttention::project(const Variable& x, bool self,
                                                                const ForwardContext& context) const {
  const auto heads_of = [&](const Variable& y) { return reshape(y, {x.dim(0), x.dim(1), -1, head_dim_}); };
  const bool routed = router_ && !context.all_heads;
  const bool looks_at_queries = routed && router_->options().kind->reads_queries;
  Projections p;
  if (routed && !looks_at_queries) p.choice = (*router_)({.x = x}, context, layer_);
  if (self && !(p.choice && p.choice->projects_chosen_heads())) {
    const std::vector<Variable> qkv = apply_each({&q_proj_, &k_proj_, &v_proj_}, x);
    p.q = heads_of(qkv[0]);
    p.k = heads_of(qkv[1]);
    p.v = heads_of(qkv[2]);
  } else {
    p.q = to_heads(q_proj_, x, head_dim_, p.chosen());
  }
  if (self && !p.k.defined()) std::tie(p.k, p.v) = keys_and_values(x);
  if (looks_at_queries) p.choice = (*router_)({.x = x, .queries = p.q}, context, layer_);
  return p;
}

/// Keys and values of tokens [B, S, D], [B, S, G, d] each.
std::pair<Variable, Variable> TranslationAttention::keys_and_values(const Variable& tokens) const {
  const std::vector<Variable> kv = apply_each({&k_proj_, &v_proj_}, tokens);
  const auto heads_of = [&](const Variable& y) {
    return reshape(y, {tokens.dim(0), tokens.dim(1), -1, head_dim_});
  };
  return {heads_of(kv[0]), heads_of(kv[1])};
}

LayerOutput TranslationAttention::forward(const Variable& x, const Variable& memory,
                                          const AttentionOptions& mask, const ForwardContext& context) const {
  Projections p = project(x, !memory.defined(), context);
  if (memory.defined()) std::tie(p.k, p.v) = keys_and_values(memory);
  AttentionOptions options = mask;
  if (context.training && dropout_ > 0) {
    MOH_CHECK(context.generator != nullptr, "training with dropout needs a generator");
    options.dropout = dropout_;
    options.dropout_key = context.generator->next();
  }
  const Variable heads = attend(p.q, p.k, p.v, p.chosen(), options);
  const Variable out = scaled_heads(output_gate_(x, heads), context.head_scales_of(layer_));
  if (context.observer != nullptr) show(*context.observer, x, p, out, mask, memory.defined());
  LayerOutput output{projected(out, p), {}};
  if (recomputes_attention(recompute_)) {
    const ConstantChoice constant(p.chosen());
    recompute_when_read(heads, [=, q = p.q.detach(), k = p.k.detach(), v = p.v.detach()] {
      return moh::attend(q, k, v, constant.get(), options);
    });
  }
  if (p.choice) output.routing = summarize(*p.choice);
  return output;
}

/// The output projection of heads [B, T, H, d].
Variable TranslationAttention::projected(const Variable& heads, const Projections& p) const {
  return from_heads(out_proj_, heads, p.chosen());
}

Variable TranslationAttention::decode(const Variable& x, LayerCache& cache) const {
  const NoGrad no_grad;
  const Projections p = project(x, /*self=*/true, {.equal_rows = true});
  const LayerCache::Keys keys = cache.append(p.k.value(), p.v.value());
  const Tensor& q = p.q.value();
  const Tensor heads = p.choice ? p.choice->rule->decode({q, keys.k, keys.v, keys.count}, *p.choice, {})
                                : attention_decode(q, keys.k, keys.v, keys.count, {}, {}, {});
  return projected(output_gate_(x, Variable(heads)), p);
}

MemoryKeys TranslationAttention::keys_of(const Variable& memory) const {
  const NoGrad no_grad;
  const auto [k, v] = keys_and_values(memory);
  return {k.value(), v.value()};
}

Variable TranslationAttention::decode(const Variable& x, const MemoryKeys& memory,
                                      const AttentionOptions& mask) const {
  const NoGrad no_grad;
  const Projections p = project(x, /*self=*/false, {.equal_rows = true});
  const Variable heads = attend(p.q, Variable(memory.k), Variable(memory.v), p.chosen(), mask);
  return projected(output_gate_(x, heads), p);
}

/// Causal attention is the decoder's, and attention to a memory from the decoder to the encoder.
void TranslationAttention::show(AttentionObserver& observer, const Variable& x, const Projections& p,
                                const Variable& heads, const AttentionOptions& mask, bool to_memory) const {
  constexpr std::size_t kSource = 0, kTarget = 1;
  const bool has_heads = !p.choice || p.choice->rule->keeps_heads();
  observer.observe({.layer = layer_,
                    .x = x.value(),
                    .q = p.q.value(),
                    .k = p.k.value(),
                    .v = p.v.value(),
                    .heads = has_heads ? heads.value() : heads_in_slots(p.q, p.k, p.v, *p.choice, mask),
                    .output = has_heads ? out_proj_.weight().value() : Tensor(),
                    .causal = mask.causal,
                    .document_starts = mask.document_starts,
                    .document_ends = mask.document_ends,
                    .side = mask.causal || to_memory ? kTarget : kSource,
                    .key_side = mask.causal ? kTarget : kSource,
                    .choice = p.chosen()});
}

}  // namespace moh
