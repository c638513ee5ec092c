#pragma once

#include <cstdint>
#include <string_view>

#include "models/config_faults.h"
#include "models/layers/head_routing_options.h"
#include "models/layers/head_set.h"
#include "models/layers/per_layer.h"

namespace moh {

/// The initial values of learned routers.
enum class RouterInit {
  kNormal,  ///< as the other matrices of the model
  kZeros,   ///< all routed heads are equally probable, as in MoA (arXiv 2210.05144)
};

/// The rows of a token that exist in its selected heads alone.
enum class RoutedRows {
  kQueries,            ///< its queries; every head has the keys and values of all tokens
  kQueriesKeysValues,  ///< keys and values, too: a head sees the tokens that selected it (NAMOH, 2609.38832)
};

/// How positions of the rotary embedding are counted.
enum class HeadPositions {
  kSequence,  ///< a row has the position of its token
  kHead,      ///< with kQueriesKeysValues, its number among the rows of its head
};

/// The tokens over which the load-balance loss is defined (docs/load_balance.md).
enum class BalanceScope {
  kMicroBatch,  ///< those of each micro-batch, as in the released code
  kGlobal,      ///< those of a step's whole batch, on all processes
};

/// How the routers' auxiliary losses are reduced over layers before their weights multiply them.
enum class BalanceLayers {
  kMean,  ///< the mean over the layers with routed heads, as in the released code of MoH
  kSum,   ///< their sum: a weight for each layer, as in MoA's release
};

/// Configuration of Mixture-of-Head attention (arXiv 2410.11842) in all layers of a model of any family: the
/// section `model.moh` of a run's YAML.
struct MohConfig {
  RouterKey router = routers::kNone;
  RoutingKey routing = routings::kHeads;  ///< what the fields below count as heads
  RoutedRows routed = RoutedRows::kQueries;
  HeadPositions positions = HeadPositions::kSequence;
  /// Tokens that a query of a shared head sees, itself included, with kQueriesKeysValues; 0: all before it.
  std::int64_t shared_window = 0;
  PerLayer num_shared;   ///< heads that are active for every token
  HeadSet shared_heads;  ///< which heads these are
  PerLayer top_k;        ///< routed heads that each token keeps
  /// top_k as a share of the routed heads of a layer, rounded, at least 1; 0: top_k says how many.
  double top_k_ratio = 0;
  /// Active heads, the shared ones included, that a user gave in place of top_k. Only while a configuration
  /// is read, which derives top_k from them (train/trainer/config/active_heads.h); 0 in the configuration of
  /// a model.
  PerLayer active;
  /// If not 0, it is learned which num_shared heads are shared, by masks (models/layers/shared_masks.h),
  /// until this share of the training is done.
  double learn_shared_until = 0;
  /// If not 0, training passes keep all routed heads at first, and fewer and fewer until this share of the
  /// training is done, from when on it is top_k (annealed_top_k()).
  double top_k_anneal_until = 0;
  /// Ignored for RouterType::binary_gates.
  GateScaling gate_scaling = GateScaling::kCode;
  bool two_stage = true;
  StraightThrough straight_through = StraightThrough::kSelected;
  BalanceLoss balance_loss = BalanceLoss::kCode;
  BalanceScope balance_scope = BalanceScope::kMicroBatch;
  BalanceLayers balance_layers = BalanceLayers::kMean;
  double balance_weight = 0.01;  ///< factor of the load-balance loss, over the layers as balance_layers says
  /// If not 0, loss-free balancing (arXiv 2408.15664): each routed head has a bias, which is added to its
  /// probability for the selection, and which each step moves by this much towards an even load.
  double balance_bias = 0;
  RouterPrecision router_precision = RouterPrecision::kSame;
  RouterInit router_init = RouterInit::kNormal;
  double z_loss_weight = 0;  ///< factor of the routers' z-loss, likewise

  bool operator==(const MohConfig&) const = default;
};

/// Routing of layer number `layer`, which has `heads` heads and `kv_heads` KV heads (0: as many).
HeadRoutingOptions routing_of(const MohConfig& config, std::int64_t heads, std::int64_t layer,
                              std::int64_t kv_heads = 0);

/// The routing of `layers` layers in one form, of the several that it may be written in: counts and shared
/// heads (but for those to be measured) listed layer by layer, ascending, and defaults where a value has no
/// meaning. within_groups needs the groups of a layer.
MohConfig spelt_out(const MohConfig& config, std::int64_t layers, QueryGroups groups = {});

/// A model's layers as far as check() knows them, and where users set them.
struct RoutedLayers {
  std::int64_t layers = 0;
  PerLayer heads;  ///< of each layer; with routing: groups, KV heads
  std::string_view heads_field = "heads";
  std::int64_t kv_heads = 0;  ///< of a layer, in the field of that name; 0 for a family without it
  RouterSources sources = {};
  std::string_view layers_field = "layers";  ///< what says how many layers there are
  std::string_view layers_text = {};         ///< what is counted, where that field alone does not say it
};

/// Reports inconsistent head counts and lists, and a router that reads what the layers do not have.
void check(const MohConfig& config, const RoutedLayers& layers, ConfigFaults& faults);

}  // namespace moh
