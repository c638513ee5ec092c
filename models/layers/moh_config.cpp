#include "models/layers/moh_config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/layers/moh_keys.h"
#include "models/layers/routed_keys_config.h"

namespace moh {

namespace {

/// Routed heads that each token of a layer keeps.
std::int64_t top_k_of(const MohConfig& c, std::int64_t heads, std::int64_t layer) {
  if (c.top_k_ratio == 0) return c.top_k.at(layer);
  const std::int64_t routed = heads - c.num_shared.at(layer);
  if (routed <= 0) return 0;
  return std::max<std::int64_t>(std::lround(c.top_k_ratio * static_cast<double>(routed)), 1);
}

/// Shared heads of a layer that are not listed: the first ones of each part, ascending.
std::vector<std::int64_t> first_heads(const MohConfig& c, std::int64_t layer, QueryGroups groups) {
  const std::int64_t parts = c.routing->parts(groups), each = c.num_shared.at(layer) / parts;
  std::vector<std::int64_t> heads;
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t i = 0; i < each; ++i) heads.push_back(part * (groups.heads / parts) + i);
  }
  return heads;
}

/// The configuration to check, and the list of its faults.
struct Check {
  const MohConfig& moh;
  const RoutedLayers& of;
  ConfigFaults& faults;

  /// The number of layers, as an error says it.
  std::string layers_text() const {
    const std::string count = number_text(of.layers);
    if (!of.layers_text.empty()) return count + " " + std::string(of.layers_text);
    return faults.key(of.layers_field) + " is " + count;
  }

  /// Whether a list has one value per layer. One value for all layers always fits.
  bool has_length(std::string_view field, const PerLayer& counts) const {
    const auto length = static_cast<std::int64_t>(counts.each.size());
    if (length == 0 || length == of.layers) return true;
    faults.add({field, of.layers_field}, "one value, or one per layer (" + layers_text() + ")",
               "a list of " + number_text(length));
    return false;
  }

  /// Checks the number of active heads of one layer, if it is given in place of top_k.
  bool check_active(std::int64_t layer) const {
    if (moh.active == PerLayer()) return true;
    const std::int64_t active = moh.active.at(layer), shared = moh.num_shared.at(layer),
                       heads = of.heads.at(layer);
    if (active <= heads &&
        (active > shared || (active == shared && (shared == heads || moh.router->keeps_shared))))
      return true;
    faults.add({kMohActive, kMohNumShared, of.heads_field, kMohRouter},
               "more than " + faults.key(kMohNumShared) + " (" + number_text(shared) + "), and at most " +
                   faults.key(of.heads_field) + " (" + number_text(heads) + ")",
               number_text(active) + " (layer " + number_text(layer) + ")",
               "it counts the shared heads, too");
    return false;
  }

  /// Checks the head counts of one layer. Returns whether they are valid, so that equal layers
  /// are reported once.
  bool check_layer(std::int64_t layer) const {
    const std::int64_t shared = moh.num_shared.at(layer), heads = of.heads.at(layer);
    const std::int64_t top_k = top_k_of(moh, heads, layer), candidates = heads - shared;
    const std::string where = " (layer " + number_text(layer) + ")";
    if (shared >= 0 && candidates >= 0 && !check_active(layer)) return false;
    if (shared < 0 || candidates < 0) {
      faults.add({kMohNumShared, of.heads_field, kMohRouter},
                 "at most " + faults.key(of.heads_field) + " (" + number_text(heads) + ")",
                 number_text(shared) + where);
    } else if (top_k < 0 || top_k > candidates) {
      faults.add({kMohTopK, kMohNumShared, of.heads_field, kMohRouter},
                 "at most " + number_text(candidates) + ", the heads that are not shared",
                 number_text(top_k) + where);
    } else if (moh.router->keeps_shared && top_k > 0) {
      faults.add({kMohTopK, kMohRouter},
                 "0 with " + faults.key(kMohRouter) + ": " + std::string(moh.router->name),
                 number_text(top_k) + where, "its tokens have the shared heads alone");
    } else if (top_k == 0 && candidates > 0 && !moh.router->keeps_shared) {
      faults.add({kMohTopK, kMohNumShared, of.heads_field, kMohRouter},
                 "at least 1 of the " + number_text(candidates) + " heads that are not shared", "0" + where,
                 "a head that no token can keep is dead; to have all active, share them all");
    } else if (candidates == 1 && !moh.router->needs_two.empty()) {
      faults.add({kMohNumShared, kMohRouter, of.heads_field},
                 "at least 2 heads that are not shared (" + std::string(moh.router->name) + " " +
                     std::string(moh.router->needs_two) + ")",
                 "1" + where);
    } else {
      return true;
    }
    return false;
  }

  /// The fault of a list of shared heads; empty if it is valid.
  static std::string fault_of(const std::vector<std::int64_t>& listed, std::int64_t heads) {
    const std::set<std::int64_t> different(listed.begin(), listed.end());
    if (different.size() != listed.size()) return "a head twice";
    for (const std::int64_t head : listed) {
      if (head < 0 || head >= heads) return "head " + number_text(head);
    }
    return "";
  }

  /// Checks lists of shared heads against num_shared and the number of heads.
  void check_shared_heads() const {
    const HeadSet& listed = moh.shared_heads;
    const auto refuse = [&](const std::string& expected, const std::string& found) {
      faults.add({kMohSharedHeads, kMohNumShared}, expected, found);
    };
    if (!listed.listed()) return;
    const auto length = static_cast<std::int64_t>(listed.each.size());
    if (length != 0 && length != of.layers)
      return refuse("one list, or one per layer (" + layers_text() + ")", number_text(length) + " lists");
    for (std::int64_t layer = 0; layer < of.layers; ++layer) {
      const std::vector<std::int64_t>& of_layer = listed.at(layer);
      const std::int64_t shared = moh.num_shared.at(layer);
      const std::string where = " (layer " + number_text(layer) + ")";
      if (static_cast<std::int64_t>(of_layer.size()) != shared)
        return refuse("as many heads as " + faults.key(kMohNumShared) + " says (" + number_text(shared) + ")",
                      std::to_string(of_layer.size()) + where);
      const std::string fault = fault_of(of_layer, of.heads.at(layer));
      if (!fault.empty())
        return refuse("heads from 0 to " + number_text(of.heads.at(layer) - 1) + ", each once",
                      fault + where);
    }
  }

  void check_dense() const {
    if (moh.num_shared == PerLayer() && moh.top_k == PerLayer() && !moh.shared_heads.listed() &&
        moh.top_k_ratio == 0 && moh.active == PerLayer() && moh.routing == routings::kHeads &&
        moh.learn_shared_until == 0 && moh.top_k_anneal_until == 0 && moh.routed == RoutedRows::kQueries &&
        moh.positions == HeadPositions::kSequence && moh.shared_window == 0 && moh.balance_bias == 0)
      return;
    faults.add({kMohRouter, kMohNumShared, kMohTopK},
               "a router for " + faults.key(kMohNumShared) + " and " + faults.key(kMohTopK), "none",
               "set " + faults.key(kMohRouter) + ": learned, or both counts to 0 for the dense model");
  }

  void check_ratio() const {
    if (!(moh.top_k_ratio >= 0 && moh.top_k_ratio <= 1)) {
      faults.add({"moh.top_k_ratio"}, "0 to 1", number_text(moh.top_k_ratio));
    } else if (moh.top_k_ratio > 0 && moh.top_k != PerLayer()) {
      faults.add({kMohTopK, "moh.top_k_ratio"}, "one of " + faults.key(kMohTopK) + " and its ratio", "both");
    }
  }

  /// Checks that the layers have what the router reads.
  void check_sources() const {
    const std::string why = why_unreadable(*moh.router, of.sources);
    if (!why.empty())
      faults.add({kMohRouter}, "one of " + readable_routers(of.sources), std::string(moh.router->name), why);
  }

  void check_rule() const {
    if (moh.learn_shared_until > 0 && !moh.routing->learns_shared)
      faults.add({kMohRouting, "moh.learn_shared_until"},
                 "heads with " + faults.key("moh.learn_shared_until"), std::string(moh.routing->name));
    moh.routing->check(moh, of, faults);
  }

  void check_anneal() const {
    constexpr std::string_view kUntil = "moh.top_k_anneal_until";
    if (!(moh.top_k_anneal_until >= 0 && moh.top_k_anneal_until <= 1))
      faults.add({kUntil}, "0, or a share up to 1", number_text(moh.top_k_anneal_until));
  }

  /// Checks what goes together with learned shared heads.
  void check_learned() const {
    constexpr std::string_view kUntil = "moh.learn_shared_until";
    if (moh.learn_shared_until == 0) return;
    if (!(moh.learn_shared_until > 0 && moh.learn_shared_until <= 1))
      return faults.add({kUntil}, "0, or a share up to 1", number_text(moh.learn_shared_until));
    if (!moh.router->learns_shared || moh.gate_scaling != GateScaling::kCode)
      faults.add({kUntil, kMohRouter, "moh.gate_scaling"}, "0, or a learned router with the gates of `code`",
                 number_text(moh.learn_shared_until));
    if (moh.shared_heads != HeadSet())
      faults.add({kMohSharedHeads, kUntil}, "first, as these heads are learned in training", "others");
    for (std::int64_t layer = 0; layer < of.layers; ++layer) {
      const std::int64_t shared = moh.num_shared.at(layer), heads = of.heads.at(layer);
      if (shared > 0 && shared < heads) continue;
      return faults.add({kMohNumShared, kUntil},
                        "1 to " + number_text(heads - 1) + " heads of which to learn which",
                        number_text(shared) + " (layer " + number_text(layer) + ")");
    }
  }

  /// Checks how the heads are balanced, by a loss and by biases of the selection.
  void check_balance() const {
    constexpr std::string_view kBias = "moh.balance_bias", kLearned = "moh.learn_shared_until";
    if (!(moh.balance_bias >= 0 && moh.balance_bias <= 1))
      return faults.add({kBias}, "0 to 1", number_text(moh.balance_bias));
    if (moh.learn_shared_until == 0) return;
    if (moh.balance_bias > 0)
      faults.add({kBias, kLearned}, "0 with " + faults.key(kLearned), number_text(moh.balance_bias),
                 "which heads are routed changes while shared heads are learned");
    if (moh.balance_loss == BalanceLoss::kCv)
      faults.add({"moh.balance_loss", kLearned}, "code, paper or shares with " + faults.key(kLearned), "cv");
  }

  void run() const {
    if (!moh.router->routes()) return check_dense();
    check_sources();
    check_ratio();
    if (!(moh.z_loss_weight >= 0))
      faults.add({"moh.z_loss_weight"}, "0 or more", number_text(moh.z_loss_weight));
    if (moh.router->binary_gates && moh.gate_scaling == GateScaling::kPaper) {
      faults.add({"moh.gate_scaling", kMohRouter},
                 "code with " + faults.key(kMohRouter) + ": " + std::string(moh.router->name), "paper",
                 "selected heads have weight 1 there; nothing is scaled");
    }
    const bool shared_fits = has_length(kMohNumShared, moh.num_shared);
    const bool by_active = moh.active != PerLayer();
    const bool top_k_fits = by_active ? has_length(kMohActive, moh.active) : has_length(kMohTopK, moh.top_k);
    if (!shared_fits || !top_k_fits) return;
    const bool same = moh.num_shared.each.empty() && moh.top_k.each.empty() && of.heads.each.empty();
    const std::int64_t num_different = same ? 1 : of.layers;
    for (std::int64_t layer = 0; layer < num_different; ++layer) {
      if (!check_layer(layer)) return;
    }
    check_shared_heads();
    check_rule();
    check_routed_keys(moh, {of.heads.at(0), of.kv_heads}, faults);
    check_learned();
    check_anneal();
    check_balance();
  }
};

}  // namespace

HeadRoutingOptions routing_of(const MohConfig& c, std::int64_t heads, std::int64_t layer,
                              std::int64_t kv_heads) {
  if (!c.router->routes()) return {c.router, {heads, heads, 0}};
  const QueryGroups groups{heads, kv_heads};
  const std::int64_t units = c.routing->units(groups), unit_heads = heads / units;
  const GateScaling scaling = c.router->binary_gates      ? GateScaling::kBinary
                              : !c.routing->keeps_heads() ? GateScaling::kShares
                                                          : c.gate_scaling;
  RouterOptions router{units, c.num_shared.at(layer), top_k_of(c, units, layer), scaling, c.two_stage};
  router.balance_loss = c.balance_loss;
  HeadRoutingOptions options{c.router,
                             router,
                             c.straight_through,
                             c.shared_heads.listed() ? c.shared_heads.at(layer) : std::vector<std::int64_t>(),
                             c.router_precision,
                             c.z_loss_weight > 0,
                             c.learn_shared_until,
                             c.top_k_anneal_until,
                             unit_heads};
  options.balance_bias = c.balance_bias;
  if (kv_heads == 0) return options;
  options.rule = c.routing;
  options.router.groups = c.routing->parts(groups);
  if (!c.shared_heads.listed() && options.router.groups > 1)
    options.shared_heads = first_heads(c, layer, groups);
  return options;
}

MohConfig spelt_out(const MohConfig& config, std::int64_t layers, QueryGroups groups) {
  if (!config.router->routes()) return {};
  MohConfig spelt = config;
  spelt.num_shared = spelt.top_k = std::vector<std::int64_t>();
  if (!config.shared_heads.to_be_measured()) spelt.shared_heads = {};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    spelt.num_shared.each.push_back(config.num_shared.at(layer));
    spelt.top_k.each.push_back(config.top_k.at(layer));
    if (config.shared_heads.to_be_measured()) continue;
    std::vector<std::int64_t> heads =
        config.shared_heads.listed() ? config.shared_heads.at(layer) : first_heads(config, layer, groups);
    std::ranges::sort(heads);
    spelt.shared_heads.each.push_back(std::move(heads));
  }
  if (config.router->binary_gates) {
    spelt.gate_scaling = MohConfig().gate_scaling;
    spelt.two_stage = MohConfig().two_stage;
  }
  return spelt;
}

void check(const MohConfig& config, const RoutedLayers& layers, ConfigFaults& faults) {
  Check{config, layers, faults}.run();
}

}  // namespace moh
