#include "models/layers/routed_keys_config.h"

#include <string>
#include <string_view>

#include "models/layers/moh_keys.h"

namespace moh {

namespace {

constexpr std::string_view kPositions = "moh.positions", kWindow = "moh.shared_window",
                           kValue = "queries_keys_values";

/// Reports values that only routed keys and values read.
void check_unused(const MohConfig& config, ConfigFaults& faults) {
  if (config.positions != HeadPositions::kSequence)
    faults.add({kPositions, kMohRouted}, "sequence, as every head has all tokens' keys", "head",
               "set " + faults.key(kMohRouted) + ": queries_keys_values");
  if (config.shared_window != 0)
    faults.add({kWindow, kMohRouted}, "0, as every head has all tokens' keys",
               number_text(config.shared_window), "set " + faults.key(kMohRouted) + ": queries_keys_values");
}

}  // namespace

void check_routed_keys(const MohConfig& config, QueryGroups groups, ConfigFaults& faults) {
  if (config.routed == RoutedRows::kQueries) return check_unused(config, faults);
  if (groups.kv_heads == 0)
    return faults.add({kMohRouted}, "queries", std::string(kValue),
                      "only language models have routed keys and values");
  if (groups.kv_heads != groups.heads)
    faults.add({kMohRouted, "kv_heads", "heads"},
               "queries where heads share a KV head (" + faults.key("heads") + " is " +
                   number_text(groups.heads) + ", " + faults.key("kv_heads") + " " +
                   number_text(groups.kv_heads) + ")",
               std::string(kValue), "or set " + faults.key("kv_heads") + " to " + number_text(groups.heads));
  if (config.routing != routings::kHeads && groups.kv_heads == groups.heads)
    faults.add({kMohRouting, kMohRouted}, "heads with " + faults.key(kMohRouted) + ": queries_keys_values",
               std::string(config.routing->name));
  if (config.router->binary_gates && config.straight_through == StraightThrough::kAll)
    faults.add({"moh.straight_through", kMohRouted},
               "selected or none with " + faults.key(kMohRouted) + ": queries_keys_values", "all",
               "a head that a token did not select has no keys for it");
  if (config.shared_window < 0) faults.add({kWindow}, "0 or more", number_text(config.shared_window));
}

}  // namespace moh
