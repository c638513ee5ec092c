#include <algorithm>
#include <vector>

#include "core/dry_run.h"
#include "models/layers/head_routing.h"
#include "models/layers/routing_rule.h"
#include "ops/attention/attention.h"
#include "ops/attention/decode.h"

namespace moh {

namespace {

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

}  // namespace

HeadLists lists_of(const Tensor& pairs, std::int64_t kv_heads, const HeadsPerToken& per_token,
                   const HeadRoutingOptions& options) {
  HeadLists lists = build_head_lists(pairs, kv_heads, per_token);
  if (dry_run()) lists.longest = balanced_longest(lists, per_token.most, options);
  return lists;
}

void lay_out_lists(HeadChoice& choice, std::int64_t kv_heads, const HeadRoutingOptions& options) {
  choice.lists = lists_of(choice.pairs, kv_heads, choice.per_token(), options);
}

Variable attend_lists(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                      const AttentionOptions& options) {
  return head_sparse_attention(q, k, v, choice.gates, choice.lists, options);
}

Tensor decode_lists(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options) {
  return attention_decode(in.q, in.k, in.v, in.count, choice.gates.value(), choice.lists, options);
}

const RoutingRule kHeadsRule{.name = "heads", .doc = "query heads.", .learns_shared = true};

Registry<RoutingRule>& RoutingRule::registry() {
  static Registry<RoutingRule> rules("routing rules",
                                     {&kHeadsRule, &kGroupsRule, &kWithinGroupsRule, &kGqeRule});
  return rules;
}

}  // namespace moh
