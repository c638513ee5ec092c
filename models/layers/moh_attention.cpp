#include "models/layers/moh_attention.h"

#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"

namespace moh {

namespace {

enum Part : std::int64_t { kQueries, kKeys, kValues, kNumParts };

/// q, k or v [B, T, H, d], copied from qkv [B, T, 3 H, d]: of its rows of H d elements every third one.
Tensor part_of(const Tensor& qkv, Part part) {
  const std::int64_t tokens = qkv.dim(0) * qkv.dim(1), heads = qkv.dim(2) / kNumParts;
  const Tensor rows = qkv.reshape({tokens * kNumParts, heads * qkv.dim(3)});
  const Tensor ids = empty({tokens}, DType::kInt64);
  for (std::int64_t t = 0; t < tokens; ++t) ids.data<std::int64_t>()[t] = t * kNumParts + part;
  const Tensor taken = embedding(Variable(rows), ids.to(qkv.device())).value();
  return taken.reshape({qkv.dim(0), qkv.dim(1), heads, qkv.dim(3)});
}

MohAttentionOptions checked(const MohAttentionOptions& options) {
  if (options.routing.kind != RouterKind::kQueryNorm) return options;
  throw ValueError(error_message("moh_attention", "router", "learned or none", "query_norm"));
}

}  // namespace

MohAttention::MohAttention(const MohAttentionOptions& o, Placement placement)
    : layer_(checked(o).layer),
      heads_(o.heads),
      head_dim_(o.head_dim),
      qkv_(o.width, 3 * o.heads * o.head_dim, true, placement),
      proj_(o.heads * o.head_dim, o.width, true, placement) {
  add_child("qkv", qkv_);
  add_child("proj", proj_);
  if (o.routing.kind == RouterKind::kNone) return;
  router_.emplace(o.width, o.heads, o.head_dim, o.routing, placement);
  add_children_of(*router_);
}

LayerOutput MohAttention::forward(const Variable& x, const ForwardContext& context) const {
  std::optional<HeadChoice> choice;
  if (router_ && !context.all_heads) choice = (*router_)(x, {}, context.forced_top_of(layer_));
  const HeadChoice* chosen = choice ? &*choice : nullptr;
  const Variable qkv = to_heads(qkv_, x, head_dim_, chosen);
  const AttentionOptions options{.causal = false};
  const Variable out =
      scaled_heads(choice ? head_sparse_attention_packed(qkv, choice->gates, choice->lists, options)
                          : attention_packed(qkv, heads_, heads_, options),
                   context.head_scales_of(layer_));
  if (context.observer != nullptr) show(*context.observer, x, qkv, out, chosen);
  LayerOutput output{from_heads(proj_, out, chosen), {}};
  if (choice) output.routing = summarize(choice->routing.balance, choice->routing.load, router_->options());
  return output;
}

void MohAttention::show(AttentionObserver& observer, const Variable& x, const Variable& qkv,
                        const Variable& heads, const HeadChoice* choice) const {
  observer.observe({.layer = layer_,
                    .x = x.value(),
                    .q = part_of(qkv.value(), kQueries),
                    .k = part_of(qkv.value(), kKeys),
                    .v = part_of(qkv.value(), kValues),
                    .heads = heads.value(),
                    .output = proj_.weight().value(),
                    .causal = false,
                    .choice = choice});
}

}  // namespace moh
