#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "models/layers/moh_config.h"
#include "models/layers/moh_keys.h"
#include "models/layers/routing_rule.h"
#include "ops/moh/gather_heads.h"

namespace moh {

namespace {

/// The settings of MoH's gates say nothing of a weighted sum, and every slot has columns of the output
/// projection.
void check_gqe(const MohConfig& config, const RoutedLayers& of, ConfigFaults& faults) {
  check_slots(config, of, faults);
  const auto refuse = [&](std::string_view field, const std::string& expected, const std::string& found,
                          const std::string& why) {
    faults.add({field, kMohRouting}, expected + " with " + faults.key(kMohRouting) + ": gqe", found, why);
  };
  if (config.router->binary_gates)
    refuse("moh.router", "a router with weights", std::string(config.router->name),
           "its selected heads have weight 1, and so no shares in a sum");
  if (config.gate_scaling != GateScaling::kCode)
    refuse("moh.gate_scaling", "code, the default,", "paper",
           "weights are renormalised over the selected heads");
  if (!config.two_stage)
    refuse("moh.two_stage", "true, the default,", "false", "shared heads have no weight");
  if (config.top_k_anneal_until != 0)
    refuse("moh.top_k_anneal_until", "0", number_text(config.top_k_anneal_until),
           "the output projection has columns for each slot");
  if (config.shared_heads.to_be_measured())
    refuse("moh.shared_heads", "first, or lists of heads,", "a measurement",
           "a dense checkpoint has another output projection, and cannot be continued");
}

void require_gqe(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  require_slots(options, kv_heads);
  if (options.router.scaling != GateScaling::kShares || options.top_k_anneal_until != 0)
    throw ValueError(
        error_message("router", "routing gqe", "GateScaling::kShares, and top_k from the start", "others"));
}

std::int64_t slots_and_sum(const HeadRoutingOptions& options) {
  return options.router.num_shared + options.router.top_k + 1;
}

Variable attend_with_sum(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                         const AttentionOptions& options) {
  return append_slot_sum(attention_of_slots(q, k, v, choice, options), choice.gates, choice.slots);
}

Tensor decode_with_sum(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options) {
  return append_slot_sum(Variable(decoded_slots(in, choice, options)), choice.gates, choice.slots).value();
}

}  // namespace

const RoutingRule kGqeRule{
    .name = "gqe",
    .doc =
        "as within_groups, with the outputs of Grouped Query Experts (arXiv 2606.20945): the output "
        "projection has columns for the slots of the active heads in place of all heads, and for one more, "
        "the sum of the routed outputs by their router weights.",
    .parts = [](QueryGroups layer) { return std::max<std::int64_t>(layer.kv_heads, 1); },
    .lists = false,
    .outputs = &slots_and_sum,
    .check = &check_gqe,
    .require = &require_gqe,
    .lay_out = &lay_out_slots,
    .attend = &attend_with_sum,
    .decode = &decode_with_sum};

}  // namespace moh
