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

/// The unit that a router keeps or leaves for a token.
enum class RoutingUnit {
  kHeads,   ///< query heads
  kGroups,  ///< KV heads, each with all query heads that share it
  /// Query heads, as many of each KV group, the query heads that share a KV head (GQE, arXiv 2606.20945).
  /// Counts stay those of the layer.
  kWithinGroups,
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
  RouterKind router = RouterKind::kNone;
  RoutingUnit routing = RoutingUnit::kHeads;  ///< what the fields below count as heads
  PerLayer num_shared;                        ///< heads that are active for every token
  HeadSet shared_heads;                       ///< which heads these are
  PerLayer top_k;                             ///< routed heads that each token keeps
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
  /// Ignored for kQueryNorm, whose gates are always kBinary.
  GateScaling gate_scaling = GateScaling::kCode;
  bool two_stage = true;
  StraightThrough straight_through = StraightThrough::kSelected;
  BalanceLoss balance_loss = BalanceLoss::kCode;
  BalanceScope balance_scope = BalanceScope::kMicroBatch;
  BalanceLayers balance_layers = BalanceLayers::kMean;
  double balance_weight = 0.01;  ///< factor of the load-balance loss, over the layers as balance_layers says
  RouterPrecision router_precision = RouterPrecision::kSame;
  RouterInit router_init = RouterInit::kNormal;
  double z_loss_weight = 0;  ///< factor of the routers' z-loss, likewise

  bool operator==(const MohConfig&) const = default;
};

/// Query heads of a layer, in groups of equal size that share a KV head; none where that is not known.
struct QueryGroups {
  std::int64_t heads = 0, kv_heads = 0;
};

/// Routing of layer number `layer`, which has `heads` heads and `kv_heads` KV heads (0: as many).
HeadRoutingOptions routing_of(const MohConfig& config, std::int64_t heads, std::int64_t layer,
                              std::int64_t kv_heads = 0);

/// The routing of `layers` layers in one form, of the several that it may be written in: counts and shared
/// heads (but for those to be measured) listed layer by layer, ascending, and defaults where a value has no
/// meaning. kWithinGroups needs the groups of a layer.
MohConfig spelt_out(const MohConfig& config, std::int64_t layers, QueryGroups groups = {});

/// Reports inconsistent head counts and lists in a model of `layers` layers with these numbers of heads; with
/// kGroups, of KV heads. `heads_field` is where users set them; `kv_heads`, the field of that name, has the
/// KV heads of a layer, 0 for a family without it.
void check(const MohConfig& config, std::int64_t layers, const PerLayer& heads, ConfigFaults& faults,
           std::string_view heads_field = "heads", std::int64_t kv_heads = 0);

}  // namespace moh
