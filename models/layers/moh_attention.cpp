#include "models/layers/moh_attention.h"

#include "ops/attention/attention.h"

namespace moh {

MohAttention::MohAttention(const MohAttentionOptions& o, Placement placement)
    : head_dim_(o.head_dim),
      qkv_(o.width, 3 * o.heads * o.head_dim, true, placement),
      proj_(o.heads * o.head_dim, o.width, true, placement),
      router_(o.width, o.heads, o.head_dim, o.routing, placement) {
  add_child("qkv", qkv_);
  add_child("proj", proj_);
  add_children_of(router_);
}

LayerOutput MohAttention::forward(const Variable& x, const Tensor& forced_top) const {
  const HeadChoice choice = router_(x, {}, forced_top);
  const Variable qkv = to_heads(qkv_, x, head_dim_, &choice);
  const Variable out = head_sparse_attention_packed(qkv, choice.gates, choice.lists, {.causal = false});
  return {from_heads(proj_, out, &choice),
          summarize(choice.routing.balance, choice.routing.load, router_.options())};
}

}  // namespace moh
