#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "models/layers/routers.h"
#include "models/layers/routing_rule.h"
#include "ops/moh/router_options.h"

namespace moh {

/// The gate gradients that the straight-through estimator of binary gates uses.
enum class StraightThrough {
  kNone,      ///< none: the router learns from the load-balance loss only
  kSelected,  ///< those of the selected heads, the only ones that are computed
  kAll,       ///< those of all routed heads: attention of every head has to be computed
};

/// The dtype of the matrices of learned routers.
enum class RouterPrecision {
  kSame,     ///< as the rest of the model
  kFloat32,  ///< float32 in a bfloat16 model
};

/// Routing of one layer.
struct HeadRoutingOptions {
  RouterKey kind = routers::kNone;
  RouterOptions router;
  StraightThrough straight_through = StraightThrough::kSelected;
  /// The shared heads: router.num_shared of them, or empty for the first ones. HeadRouter derives the
  /// router's order from it.
  std::vector<std::int64_t> shared_heads = {};
  RouterPrecision precision = RouterPrecision::kSame;
  bool z_loss = false;  ///< compute the z-loss of the routed logits (ops/moh/router_z_loss.h)
  /// If not 0, which heads are shared is learned by masks until this share of the training is done
  /// (models/layers/shared_masks.h).
  double learn_shared_until = 0;
  /// If not 0, training passes keep annealed_top_k() routed heads.
  double top_k_anneal_until = 0;
  /// Query heads of a layer that the router keeps or leaves together, in succession: its "heads" are units of
  /// so many. Those of a KV head, where whole groups are routed.
  std::int64_t unit_heads = 1;
  /// How attention computes the pairs. For kWithinGroups router.groups is the number of KV heads, and as many
  /// heads of each are shared.
  RoutingKey rule = routings::kHeads;
  /// If not 0, routed heads are selected by biased probabilities, and this is the step of the bias
  /// (MohConfig::balance_bias).
  double balance_bias = 0;

  std::int64_t query_heads() const { return router.heads * unit_heads; }
  /// Rows of width d that the output projection takes of a token: one of each query head, or
  /// RoutingRule::outputs.
  std::int64_t outputs() const { return rule->keeps_heads() ? query_heads() : rule->outputs(*this); }
};

/// The routed heads that a token keeps in training when the share `progress` of it is done: all E of them at
/// its start, router.top_k from top_k_anneal_until on, and each number between for an equal time,
///   K = top_k + ceil((E - top_k) (1 - progress / top_k_anneal_until)),
/// inside each of router.groups groups.
/// Without annealing it is router.top_k.
std::int64_t annealed_top_k(const HeadRoutingOptions& options, double progress);

/// The heads (units) of a layer by number, each kind ascending: the router's order is shared heads
/// first, then routed.
struct HeadKinds {
  std::vector<std::int64_t> shared, routed;
};
/// Throws ValueError as head_order() does.
HeadKinds head_kinds(const HeadRoutingOptions& options);
/// The kinds of query heads.
HeadKinds query_head_kinds(const HeadRoutingOptions& options);

/// Number of query heads of a token whose attention is computed: the selected ones, or, if a backward pass
/// follows, all of them for an estimator that needs every gate's gradient (StraightThrough::kAll).
std::int64_t computed_heads(const HeadRoutingOptions& options, bool backward_follows);

/// The dtype of the router's matrices in a model of `model_dtype`.
DType router_dtype(RouterPrecision precision, DType model_dtype);

}  // namespace moh
