#include "models/layers/switch_head.h"

#include "models/layers/head_routing.h"
#include "ops/attention/head_lists.h"
#include "ops/linalg/linear.h"
#include "ops/moh/head_projection.h"
#include "ops/moh/mix_experts.h"
#include "ops/moh/sigmoid_top_k.h"

namespace moh {

SwitchHead::SwitchHead(const SwitchHeadConfig& config, std::int64_t width, std::int64_t heads,
                       std::int64_t kv_heads, std::int64_t head_dim, Placement placement)
    : config_(config),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      v_router_(width, kv_heads * config.experts, /*bias=*/false, placement),
      o_router_(width, heads * config.experts, /*bias=*/false, placement) {
  add_child("v_router", v_router_);
  add_child("o_router", o_router_);
}

HeadChoice SwitchHead::choose(const Linear& router, const Variable& x, bool equal_rows) const {
  const Variable logits = linears(x, {router.weight()}, {}, accumulate_dtype(x.dtype())).front();
  const ExpertGates found = sigmoid_top_k(logits, config_.experts, config_.top_k);
  HeadChoice choice;
  choice.gates = found.gates;
  choice.pairs = found.selected;
  const double active = static_cast<double>(config_.top_k) / static_cast<double>(config_.experts);
  const bool pays =
      x.device() == kCpu && !equal_rows && head_projection_pays(x.dim(0) * x.dim(1), head_dim_, active);
  const std::int64_t all = logits.dim(2);
  if (pays)
    choice.lists_of_heads = build_head_lists(found.selected, all, all / config_.experts * config_.top_k);
  return choice;
}

Variable SwitchHead::values(const Variable& x, const Linear& v_proj, bool equal_rows) const {
  const HeadChoice choice = choose(v_router_, x, equal_rows);
  return mix_experts(to_heads(v_proj, x, head_dim_, &choice), choice.gates, choice.pairs, kv_heads_);
}

Variable SwitchHead::output(const Variable& x, const Variable& heads, const Linear& o_proj,
                            bool equal_rows) const {
  const HeadChoice choice = choose(o_router_, x, equal_rows);
  return from_heads(o_proj, spread_to_experts(heads, choice.gates, choice.pairs), &choice);
}

}  // namespace moh
