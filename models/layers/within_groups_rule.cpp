#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "models/layers/moh_config.h"
#include "models/layers/moh_keys.h"
#include "models/layers/routing_rule.h"
#include "ops/attention/attention.h"
#include "ops/attention/decode.h"
#include "ops/moh/gather_heads.h"
#include "ops/moh/head_slots.h"

namespace moh {

namespace {

std::string in_layer(std::int64_t layer) {
  return " (layer " + number_text(layer) + ")";
}

std::string with_rule(const MohConfig& config) {
  return "with routing: " + std::string(config.routing->name);
}

/// Whether a count of one layer can be the same in each of its KV groups.
bool is_multiple(const MohConfig& config, std::string_view field, std::int64_t count, std::int64_t kv_heads,
                 std::int64_t layer, ConfigFaults& faults) {
  if (count % kv_heads == 0) return true;
  faults.add({field, kMohRouting, "kv_heads"},
             "a multiple of " + faults.key("kv_heads") + " (" + number_text(kv_heads) + ")",
             number_text(count) + in_layer(layer),
             with_rule(config) + " each KV group has as many; " + faults.key(field) + " counts the layer's");
  return false;
}

/// Whether the listed shared heads of one layer are as many in each KV group.
bool check_shared(const MohConfig& config, std::int64_t layer, QueryGroups groups, ConfigFaults& faults) {
  if (!config.shared_heads.listed()) return true;
  const std::int64_t size = groups.heads / groups.kv_heads;
  const std::int64_t each = config.num_shared.at(layer) / groups.kv_heads;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(groups.kv_heads));
  for (const std::int64_t head : config.shared_heads.at(layer)) {
    if (head < 0 || head >= groups.heads) return false;  // reported as such
    ++counts[static_cast<std::size_t>(head / size)];
  }
  const auto other = std::ranges::find_if(counts, [&](std::int64_t count) { return count != each; });
  if (other == counts.end()) return true;
  faults.add({kMohSharedHeads, kMohRouting, kMohNumShared},
             number_text(each) + " of each " + number_text(size) + " heads that share a KV head, " +
                 with_rule(config),
             number_text(*other) + " of KV head " + number_text(other - counts.begin()) + in_layer(layer));
  return false;
}

}  // namespace

/// Counts and lists of a layer have to be the same for each of its KV groups, and groups have several heads.
void check_slots(const MohConfig& config, const RoutedLayers& of, ConfigFaults& faults) {
  const std::int64_t kv_heads = of.kv_heads;
  if (kv_heads == 0)
    return faults.add({kMohRouting}, "heads or groups", std::string(config.routing->name),
                      "only language and translation models have groups of query heads that share a KV head");
  const std::int64_t count = of.heads.at(0);
  if (kv_heads < 1 || count % kv_heads != 0) return;  // reported as such
  if (count == kv_heads)
    return faults.add(
        {kMohRouting, "kv_heads", "heads"},
        "heads, as each of the " + number_text(count) + " query heads has a KV head of its own",
        std::string(config.routing->name),
        "set " + faults.key("kv_heads") + " to a divisor of " + faults.key("heads") + " below it");
  const bool by_active = config.active != PerLayer();
  for (std::int64_t layer = 0; layer < of.layers; ++layer) {
    const std::int64_t shared = config.num_shared.at(layer);
    const std::int64_t top_k = routing_of(config, of.heads.at(layer), layer).router.top_k;
    if (!is_multiple(config, kMohNumShared, shared, kv_heads, layer, faults) ||
        !is_multiple(config, by_active ? kMohActive : kMohTopK, by_active ? shared + top_k : top_k, kv_heads,
                     layer, faults) ||
        !check_shared(config, layer, {of.heads.at(layer), kv_heads}, faults))
      return;
  }
}

/// Every KV group has as many shared heads.
void require_slots(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  const RouterOptions& router = options.router;
  const auto refuse = [](const std::string& what, const std::string& expected, std::int64_t found) {
    throw ValueError(error_message("router", what, expected, std::to_string(found)));
  };
  if (router.groups != kv_heads || router.heads % kv_heads != 0)
    refuse("groups", "the KV heads (" + std::to_string(kv_heads) + "), a divisor of the heads",
           router.groups);
  std::vector<std::int64_t> shared(static_cast<std::size_t>(kv_heads));
  for (const std::int64_t head : head_kinds(options).shared)
    ++shared[static_cast<std::size_t>(head / (router.heads / kv_heads))];
  for (const std::int64_t count : shared) {
    if (count * kv_heads != router.num_shared) refuse("shared_heads", "as many of each group", count);
  }
}

void lay_out_slots(HeadChoice& choice, std::int64_t kv_heads, const HeadRoutingOptions& /*options*/) {
  choice.slots = head_slots(choice.pairs, kv_heads, choice.computed_heads / kv_heads);
}

Variable attention_of_slots(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                            const AttentionOptions& options) {
  return attention(gather_heads(q, choice.slots), k, v, options);
}

Tensor decoded_slots(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options) {
  const Tensor of_slots = gather_heads(Variable(in.q), choice.slots).value();
  return attention_decode(of_slots, in.k, in.v, in.count, {}, {}, options);
}

namespace {

Variable attend_heads(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                      const AttentionOptions& options) {
  return scatter_heads(attention_of_slots(q, k, v, choice, options), choice.gates, choice.slots);
}

Tensor decode_heads(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options) {
  return scatter_heads(Variable(decoded_slots(in, choice, options)), choice.gates, choice.slots).value();
}

}  // namespace

const RoutingRule kWithinGroupsRule{
    .name = "within_groups",
    .doc =
        "query heads, as many in each group that shares a KV head, so that attention is dense over fewer "
        "heads; `num_shared`, `top_k` and `active` stay counts of the layer, multiples of `kv_heads`. "
        "Language and translation models only.",
    .parts = [](QueryGroups layer) { return std::max<std::int64_t>(layer.kv_heads, 1); },
    .lists = false,
    .check = &check_slots,
    .require = &require_slots,
    .lay_out = &lay_out_slots,
    .attend = &attend_heads,
    .decode = &decode_heads};

}  // namespace moh
