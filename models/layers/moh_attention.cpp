#include "models/layers/moh_attention.h"

#include "ops/attention/attention.h"
#include "ops/shape/reshape.h"

namespace moh {

MohAttention::MohAttention(const MohAttentionOptions& o, DType dtype)
    : heads_(o.heads),
      head_dim_(o.head_dim),
      qkv_(o.width, 3 * o.heads * o.head_dim, true, dtype),
      proj_(o.heads * o.head_dim, o.width, true, dtype),
      router_(o.width, o.heads, o.routing, dtype) {
  add_child("qkv", qkv_);
  add_child("proj", proj_);
  add_children_of(router_);
}

LayerOutput MohAttention::forward(const Variable& x, const Tensor& forced_top) const {
  const std::int64_t batch = x.dim(0), tokens = x.dim(1);
  const Variable qkv = reshape(qkv_(x), {batch, tokens, 3 * heads_, head_dim_});
  const HeadChoice choice = router_(x, {}, forced_top);
  const Variable out = head_sparse_attention_packed(qkv, choice.gates, choice.lists, {.causal = false});
  return {proj_(reshape(out, {batch, tokens, heads_ * head_dim_})),
          summarize(choice.routing.balance, choice.routing.load, router_.options())};
}

}  // namespace moh
