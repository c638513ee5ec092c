#include "models/layers/moh_config.h"
#include "models/layers/routing_rule.h"

namespace moh {

namespace {

void check_groups(const MohConfig& config, const RoutedLayers& /*layers*/, ConfigFaults& faults) {
  if (config.shared_heads.rule != HeadRule::kLossIncrease) return;
  faults.add({"moh.shared_heads", "moh.routing"},
             "first, output_norm, or lists of KV heads with routing: groups", "loss_increase");
}

}  // namespace

const RoutingRule kGroupsRule{
    .name = "groups",
    .doc =
        "KV heads with all query heads that share them; the keys that count heads then count KV heads, and "
        "generating reads the keys and values of the kept groups alone.",
    .unit_field = "kv_heads",
    .units = [](QueryGroups layer) { return layer.kv_heads > 0 ? layer.kv_heads : layer.heads; },
    .check = &check_groups};

}  // namespace moh
