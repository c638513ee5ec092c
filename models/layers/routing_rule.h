#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"
#include "models/layers/registry.h"

namespace moh {

class ConfigFaults;
class Variable;
struct AttentionOptions;
struct HeadChoice;
struct HeadLists;
struct HeadsPerToken;
struct HeadRoutingOptions;
struct MohConfig;
struct RoutedLayers;

/// Query heads of a layer, in groups of equal size that share a KV head; none where that is not known.
struct QueryGroups {
  std::int64_t heads = 0, kv_heads = 0;
};

/// Queries [B, T, H, d] over the first `count` keys and values of a cache, [B, ..., G, d].
struct CachedAttention {
  const Tensor &q, &k, &v;
  std::int64_t count = 0;
};

/// Lists of the nonzero elements of `pairs`, uint8 [B, T, H], `per_token` of each token, with the longest
/// list of a dry run.
HeadLists lists_of(const Tensor& pairs, std::int64_t kv_heads, const HeadsPerToken& per_token,
                   const HeadRoutingOptions& options);

/// The functions of a rule whose pairs are lists (HeadChoice::lists).
void lay_out_lists(HeadChoice& choice, std::int64_t kv_heads, const HeadRoutingOptions& options);
Variable attend_lists(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                      const AttentionOptions& options);
Tensor decode_lists(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options);

/// The functions of a rule that keeps as many heads of each KV group, in slots (HeadChoice::slots).
void check_slots(const MohConfig& config, const RoutedLayers& of, ConfigFaults& faults);
void require_slots(const HeadRoutingOptions& options, std::int64_t kv_heads);
void lay_out_slots(HeadChoice& choice, std::int64_t kv_heads, const HeadRoutingOptions& options);
/// Attention of the slots, [B, T, G k, d]: dense, over the queries of the heads in them.
Variable attention_of_slots(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                            const AttentionOptions& options);
Tensor decoded_slots(const CachedAttention& in, const HeadChoice& choice, const AttentionOptions& options);

/// A rule of what a router keeps of a layer, and how attention computes it: `model.moh.routing` is its name.
/// Functions are never null.
struct RoutingRule {
  std::string_view name;
  std::string_view doc;  ///< a sentence for docs/config.md, which follows the name and a colon
  /// The field of a model's configuration that has the number of units.
  std::string_view unit_field = "heads";
  /// The units of a layer, each of as many query heads in succession.
  std::int64_t (*units)(QueryGroups layer) = [](QueryGroups layer) { return layer.heads; };
  /// Parts of a layer, in succession, of which a token keeps as many units.
  std::int64_t (*parts)(QueryGroups layer) = [](QueryGroups) { return std::int64_t{1}; };
  bool learns_shared = false;  ///< goes with moh.learn_shared_until
  /// Attention reads lists, and so takes queries, keys and values that are packed.
  bool lists = true;
  /// Null where the output projection has columns for each head. Else the number of outputs that `attend` and
  /// `decode` return in place of heads, and that it has columns for; the layer's gates are then kShares.
  std::int64_t (*outputs)(const HeadRoutingOptions& options) = nullptr;
  /// Reports what the rule has besides, as check() of models/layers/moh_config.h, which calls it.
  void (*check)(const MohConfig& config, const RoutedLayers& layers,
                ConfigFaults& faults) = [](const MohConfig&, const RoutedLayers&, ConfigFaults&) {};
  /// Throws ValueError for the options of a layer that contradict the rule.
  void (*require)(const HeadRoutingOptions& options, std::int64_t kv_heads) = [](const HeadRoutingOptions&,
                                                                                 std::int64_t) {};
  /// Adds the pairs of a choice in the form that attention takes. The choice has `pairs` and
  /// `computed_heads`.
  void (*lay_out)(HeadChoice& choice, std::int64_t kv_heads,
                  const HeadRoutingOptions& options) = &lay_out_lists;
  /// Attention of the pairs, as attend() of models/layers/head_routing.h.
  Variable (*attend)(const Variable& q, const Variable& k, const Variable& v, const HeadChoice& choice,
                     const AttentionOptions& options) = &attend_lists;
  /// Attention over a cache, without gradients: [B, T, H, d].
  Tensor (*decode)(const CachedAttention& in, const HeadChoice& choice,
                   const AttentionOptions& options) = &decode_lists;

  /// Whether a dense layer, of which all heads are active, has the same parameters.
  bool keeps_heads() const { return outputs == nullptr; }

  static Registry<RoutingRule>& registry();
};

using RoutingKey = Registered<RoutingRule>;

// NOLINTNEXTLINE(readability-identifier-naming): constants, whose files define them
extern const RoutingRule kHeadsRule, kGroupsRule, kWithinGroupsRule, kGqeRule;

/// The rules as values of a configuration.
namespace routings {

/// Query heads.
inline constexpr RoutingKey kHeads{kHeadsRule};
/// KV heads, each with all query heads that share it.
inline constexpr RoutingKey kGroups{kGroupsRule};
/// Query heads, as many of each KV group, the query heads that share a KV head (GQE, arXiv 2606.20945).
/// Counts stay those of the layer.
inline constexpr RoutingKey kWithinGroups{kWithinGroupsRule};
/// Likewise, with the outputs of GQE itself: slots, and their weighted sum.
inline constexpr RoutingKey kGqe{kGqeRule};

}  // namespace routings

}  // namespace moh
