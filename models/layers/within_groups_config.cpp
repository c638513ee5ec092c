#include "models/layers/within_groups_config.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace moh {

namespace {

constexpr std::string_view kRouting = "moh.routing", kKvHeads = "kv_heads", kNumShared = "moh.num_shared",
                           kTopK = "moh.top_k", kActive = "moh.active", kSharedHeads = "moh.shared_heads";

std::string in_layer(std::int64_t layer) {
  return " (layer " + number_text(layer) + ")";
}

/// Whether a count of one layer can be the same in each of its KV groups.
bool is_multiple(std::string_view field, std::int64_t count, std::int64_t kv_heads, std::int64_t layer,
                 ConfigFaults& faults) {
  if (count % kv_heads == 0) return true;
  faults.add(
      {field, kRouting, kKvHeads},
      "a multiple of " + faults.key(kKvHeads) + " (" + number_text(kv_heads) + ")",
      number_text(count) + in_layer(layer),
      "with routing: within_groups each KV group has as many; " + faults.key(field) + " counts the layer's");
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
  faults.add({kSharedHeads, kRouting, kNumShared},
             number_text(each) + " of each " + number_text(size) +
                 " heads that share a KV head, with routing: within_groups",
             number_text(*other) + " of KV head " + number_text(other - counts.begin()) + in_layer(layer));
  return false;
}

}  // namespace

std::vector<std::int64_t> first_of_groups(std::int64_t count, QueryGroups groups) {
  const std::int64_t size = groups.heads / groups.kv_heads, each = count / groups.kv_heads;
  std::vector<std::int64_t> heads;
  for (std::int64_t group = 0; group < groups.kv_heads; ++group) {
    for (std::int64_t i = 0; i < each; ++i) heads.push_back(group * size + i);
  }
  return heads;
}

void check_within_groups(const MohConfig& config, std::int64_t layers, const PerLayer& heads,
                         std::int64_t kv_heads, ConfigFaults& faults) {
  if (kv_heads == 0)
    return faults.add({kRouting}, "heads or groups", "within_groups",
                      "only language models have groups of query heads that share a KV head");
  const std::int64_t count = heads.at(0);
  if (kv_heads < 1 || count % kv_heads != 0) return;  // reported as such
  if (count == kv_heads)
    return faults.add(
        {kRouting, kKvHeads, "heads"},
        "heads, as each of the " + number_text(count) + " query heads has a KV head of its own",
        "within_groups",
        "set " + faults.key(kKvHeads) + " to a divisor of " + faults.key("heads") + " below it");
  const bool by_active = config.active != PerLayer();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t shared = config.num_shared.at(layer);
    const std::int64_t top_k = routing_of(config, heads.at(layer), layer).router.top_k;
    if (!is_multiple(kNumShared, shared, kv_heads, layer, faults) ||
        !is_multiple(by_active ? kActive : kTopK, by_active ? shared + top_k : top_k, kv_heads, layer,
                     faults) ||
        !check_shared(config, layer, {heads.at(layer), kv_heads}, faults))
      return;
  }
}

}  // namespace moh
