#include "models/layers/moh_attention.h"

#include "autograd/recompute.h"
#include "models/layers/attention_observer.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"

namespace moh {

namespace {

/// `count` heads from number `first` on, [B, T, count, d], copied from qkv [B, T, H + 2 G, d].
Tensor heads_of(const Tensor& qkv, std::int64_t first, std::int64_t count) {
  const std::int64_t tokens = qkv.dim(0) * qkv.dim(1), all = qkv.dim(2);
  const Tensor ids = empty({tokens * count}, DType::kInt64);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data<std::int64_t>()[i] = i / count * all + first + i % count;
  const Tensor rows = qkv.reshape({tokens * all, qkv.dim(3)});
  const Tensor taken = embedding(Variable(rows), ids.to(qkv.device())).value();
  return taken.reshape({qkv.dim(0), qkv.dim(1), count, qkv.dim(3)});
}

MohAttentionOptions checked(const MohAttentionOptions& options) {
  require_packed("moh_attention", options.routing, {.condition = true});
  return options;
}

}  // namespace

MohAttention::MohAttention(const MohAttentionOptions& o, Placement placement)
    : recompute_(checked(o).recompute),
      layer_(o.layer),
      heads_(o.heads),
      kv_heads_(o.kv_heads > 0 ? o.kv_heads : o.heads),
      head_dim_(o.head_dim),
      qkv_(o.width, (heads_ + 2 * kv_heads_) * o.head_dim, true, placement),
      proj_(o.heads * o.head_dim, o.width, true, placement),
      output_gate_(o.gate, o.width, o.heads, o.head_dim, placement) {
  add_child("qkv", qkv_);
  add_child("proj", proj_);
  add_children_of(output_gate_);
  if (!o.routing.kind->routes()) return;
  router_.emplace(o.width, kv_heads_, o.head_dim, o.routing, placement);
  add_children_of(*router_);
}

Variable MohAttention::attend(const Variable& qkv, const HeadChoice* choice) const {
  const AttentionOptions options{.causal = false};
  return choice != nullptr ? head_sparse_attention_packed(qkv, choice->gates, choice->lists, options)
                           : attention_packed(qkv, heads_, kv_heads_, options);
}

LayerOutput MohAttention::forward(const Variable& x, const ForwardContext& context,
                                  const Variable& condition) const {
  std::optional<HeadChoice> choice;
  if (router_ && !context.all_heads) choice = (*router_)({.x = x, .condition = condition}, context, layer_);
  const HeadChoice* chosen = choice ? &*choice : nullptr;
  const Variable qkv = to_heads(qkv_, x, head_dim_, chosen);
  const Variable heads = attend(qkv, chosen);
  const Variable out = scaled_heads(output_gate_(x, heads), context.head_scales_of(layer_));
  if (context.observer != nullptr) show(*context.observer, x, qkv, out, chosen);
  LayerOutput output{from_heads(proj_, out, chosen), {}};
  if (recomputes_attention(recompute_)) {
    const ConstantChoice constant(chosen);
    recompute_when_read(qkv,
                        [=, this, x = x.detach()] { return to_heads(qkv_, x, head_dim_, constant.get()); });
    recompute_when_read(heads, [=, this, qkv = qkv.detach()] { return attend(qkv, constant.get()); });
  }
  if (choice) output.routing = summarize(*choice);
  return output;
}

void MohAttention::show(AttentionObserver& observer, const Variable& x, const Variable& qkv,
                        const Variable& heads, const HeadChoice* choice) const {
  observer.observe({.layer = layer_,
                    .x = x.value(),
                    .q = heads_of(qkv.value(), 0, heads_),
                    .k = heads_of(qkv.value(), heads_, kv_heads_),
                    .v = heads_of(qkv.value(), heads_ + kv_heads_, kv_heads_),
                    .heads = heads.value(),
                    .output = proj_.weight().value(),
                    .causal = false,
                    .choice = choice});
}

}  // namespace moh
