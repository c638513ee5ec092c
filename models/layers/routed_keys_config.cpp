#include "models/layers/routed_keys_config.h"

#include <string>
#include <string_view>

namespace moh {

namespace {

constexpr std::string_view kRouted = "moh.routed", kPositions = "moh.positions",
                           kWindow = "moh.shared_window", kRouting = "moh.routing", kKvHeads = "kv_heads",
                           kHeads = "heads", kValue = "queries_keys_values";

/// Reports values that only routed keys and values read.
void check_unused(const MohConfig& config, ConfigFaults& faults) {
  if (config.positions != HeadPositions::kSequence)
    faults.add({kPositions, kRouted}, "sequence, as every head has all tokens' keys", "head",
               "set " + faults.key(kRouted) + ": queries_keys_values");
  if (config.shared_window != 0)
    faults.add({kWindow, kRouted}, "0, as every head has all tokens' keys", number_text(config.shared_window),
               "set " + faults.key(kRouted) + ": queries_keys_values");
}

}  // namespace

void check_routed_keys(const MohConfig& config, QueryGroups groups, ConfigFaults& faults) {
  if (config.routed == RoutedRows::kQueries) return check_unused(config, faults);
  if (groups.kv_heads == 0)
    return faults.add({kRouted}, "queries", std::string(kValue),
                      "only language models have routed keys and values");
  if (groups.kv_heads != groups.heads)
    faults.add({kRouted, kKvHeads, kHeads},
               "queries where heads share a KV head (" + faults.key(kHeads) + " is " +
                   number_text(groups.heads) + ", " + faults.key(kKvHeads) + " " +
                   number_text(groups.kv_heads) + ")",
               std::string(kValue), "or set " + faults.key(kKvHeads) + " to " + number_text(groups.heads));
  if (config.routing != routings::kHeads && groups.kv_heads == groups.heads)
    faults.add({kRouting, kRouted}, "heads with " + faults.key(kRouted) + ": queries_keys_values",
               std::string(config.routing->name));
  if (config.router->binary_gates && config.straight_through == StraightThrough::kAll)
    faults.add({"moh.straight_through", kRouted},
               "selected or none with " + faults.key(kRouted) + ": queries_keys_values", "all",
               "a head that a token did not select has no keys for it");
  if (config.shared_window < 0) faults.add({kWindow}, "0 or more", number_text(config.shared_window));
}

}  // namespace moh
