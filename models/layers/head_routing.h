#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/head_routing_options.h"
#include "models/layers/linear.h"
#include "models/layers/shared_masks.h"
#include "models/module.h"
#include "ops/attention/head_lists.h"
#include "ops/moh/head_router.h"

namespace moh {

struct AttentionOptions;

/// Results of routing one layer, for the loss and for metrics.
struct LayerRouting {
  Variable balance;                            ///< undefined without routed heads
  Tensor load;                                 ///< [E], of HeadKinds::routed; undefined without routed heads
  Variable z_loss;                             ///< undefined unless HeadRoutingOptions::z_loss
  std::int64_t computed_heads = 0, heads = 0;  ///< of a token, see computed_heads(); of the layer
  /// Where steps differ in them, scalars on the device: computed heads of a token, on average, and, where it
  /// is annealed, K, in units. Else undefined.
  Tensor heads_each = {}, top_k = {};
  /// Routing::statistics of a training pass, with a margin if the router refuses heads, with a weight if it
  /// has two stages; else undefined. [1], the weight alone, where a bias takes part in the selection, which
  /// has no margin in logits.
  Tensor statistics = {};
  bool two_stage = false, refuses = false;
  Tensor balance_load = {};  ///< [E], Routing::balance_load
};

/// The result of attention, or of a layer with attention.
struct LayerOutput {
  Variable y;                           ///< [B, T, D]
  std::optional<LayerRouting> routing;  ///< absent in a dense layer
  Variable expert_balance = {};  ///< load-balance loss of a mixture of feed-forward networks, or undefined
};

/// Gates of a layer, and the head lists of the pairs to compute.
struct HeadChoice {
  Variable gates;  ///< [B, T, H]
  HeadLists lists;
  /// The pairs of `lists`, one list per head, if projecting only the selected heads is faster than projecting
  /// all heads (head_projection_pays); else undefined.
  HeadLists lists_of_heads;
  Routing routing;
  Variable z_loss;                     ///< undefined unless HeadRoutingOptions::z_loss
  std::int64_t computed_heads = 0;     ///< of a token
  bool as_many_each = false;           ///< exactly computed_heads of every token
  Tensor heads_each = {}, top_k = {};  ///< see LayerRouting
  Tensor statistics = {};              ///< likewise, and these
  bool two_stage = false, refuses = false;
  Tensor pairs = {};  ///< those of the lists as uint8 [B, T, H]; undefined while shared heads are learned
  /// The pairs as head_slots(), [B, T, G, k], of a rule that takes these in place of `lists`; else undefined.
  Tensor slots = {};
  RoutingKey rule = routings::kHeads;

  HeadsPerToken per_token() const { return {computed_heads, as_many_each}; }
  bool projects_chosen_heads() const { return lists_of_heads.rows.defined(); }
  /// The choice without the graph of its gates, as constants for what is recomputed.
  HeadChoice detached() const;
};

/// HeadChoice::detached() of a choice, or null, for closures that outlive it.
class ConstantChoice {
 public:
  explicit ConstantChoice(const HeadChoice* choice)
      : choice_(choice != nullptr ? std::make_shared<const HeadChoice>(choice->detached()) : nullptr) {}
  const HeadChoice* get() const { return choice_.get(); }

 private:
  std::shared_ptr<const HeadChoice> choice_;
};

/// The routing of one attention layer: logits of its Router, gates and selection by route_heads, pairs as its
/// RoutingRule lays them out. Parameters are those of the Router. Where the shared heads are learned,
/// SharedMasks adds its own; a training pass is then route_masked_heads, an evaluation the plain routing with
/// the shared heads of the moment. With
/// HeadRoutingOptions::balance_bias there is `e_score_correction_bias` [E] besides, named as in the released
/// code of DeepSeek-V3: float32 (float64 in a float64 model), 0 at first, and no optimiser trains it
/// (requires_grad() is false).
class HeadRouter : public Module {
 public:
  /// Throws ValueError for head counts that contradict each other.
  HeadRouter(std::int64_t width, std::int64_t kv_heads, std::int64_t head_dim,
             const HeadRoutingOptions& options, Placement placement);

  /// Logits and gates are float32. `layer` is the layer's number, for `context`. In training, masks of
  /// learned shared heads are drawn, and K may be annealed; other passes keep top_k heads at any time.
  HeadChoice operator()(const LayerInput& in, const ForwardContext& context = {},
                        std::int64_t layer = 0) const;

  /// The bias of the selection, [E]; undefined without HeadRoutingOptions::balance_bias or routed heads.
  Tensor balance_bias() const { return balance_bias_.defined() ? balance_bias_.value() : Tensor(); }
  /// With the shared heads of the moment, if they are learned.
  HeadRoutingOptions options() const;
  /// See Model::set_progress.
  bool set_progress(double share);
  /// Whether K has its last value.
  bool settled() const { return progress_ >= options_.top_k_anneal_until; }

 private:
  /// The heads of the moment, where they are learned.
  RouterHeads learned_heads() const;
  RouterHeads heads_of_pass(bool draws) const;
  void add_balance_bias(Placement placement);
  void add_statistics(HeadChoice& choice, const RouterOptions& router) const;
  HeadChoice masked_choice(const LayerInput& in, Generator& draws, const Tensor& balance_load) const;
  /// Numbers of units for N rows, [N, U], as those of the heads of each token, [B, T, H].
  Variable of_tokens(const Variable& units, const Shape& per_token) const;
  Tensor of_tokens(const Tensor& units, const Shape& per_token) const;  ///< of uint8
  /// HeadChoice::lists_of_heads of the pairs to compute.
  HeadLists lists_of_heads(const HeadChoice& choice, const Tensor& pairs) const;

  std::int64_t kv_heads_, head_dim_;
  HeadRoutingOptions options_;
  double progress_ = 0;
  Tensor order_;  ///< head_order(); undefined where the first heads are shared
  std::unique_ptr<Router> router_;
  Variable balance_bias_;
  std::unique_ptr<SharedMasks> masks_;  // null unless the shared heads are learned
  std::optional<RouterHeads> fixed_;    // since they were fixed: a captured step copies nothing from the host
};

/// Throws ValueError, from `where`, for the routing of a layer whose projections are packed: a router that
/// reads what `sources` lacks, or a rule whose attention takes queries by themselves.
void require_packed(std::string_view where, const HeadRoutingOptions& options, RouterSources sources);

/// Attention of the heads to compute, each times its gate, zeros for the others; of all heads without a
/// choice. q [B, T, H, d], k and v [B, T, G, d] to [B, T, H, d], or to the RoutingRule::outputs of the
/// choice.
Variable attend(const Variable& q, const Variable& k, const Variable& v, const HeadChoice* choice,
                const AttentionOptions& options);

/// The heads of a rule whose outputs are others (RoutingRule::outputs), without gates and gradients, [B, T,
/// H, d]: zeros where a token did not select them.
Tensor heads_in_slots(const Variable& q, const Variable& k, const Variable& v, HeadChoice choice,
                      const AttentionOptions& options);

/// Projections between tokens [B, T, D] and heads, dense, or for the selected pairs only where that is
/// faster. to_heads returns queries [B, T, H, d]; if `map` packs queries, keys and values, [B, T, H + 2 G,
/// d], of which only queries are restricted. from_heads is the output projection, of what attend() returns,
/// to [B, T, D].
Variable to_heads(const Linear& map, const Variable& x, std::int64_t head_dim, const HeadChoice* choice);
Variable from_heads(const Linear& map, const Variable& heads, const HeadChoice* choice);

/// The outputs of the heads, [B, T, H, d], times `scales` [H]; unchanged if `scales` is undefined.
Variable scaled_heads(const Variable& heads, const Variable& scales);

/// The summary of a layer's routing.
LayerRouting summarize(const HeadChoice& choice);

}  // namespace moh
