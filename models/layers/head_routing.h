#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/linear.h"
#include "models/layers/shared_masks.h"
#include "models/module.h"
#include "ops/attention/head_lists.h"
#include "ops/moh/head_router.h"

namespace moh {

/// How a layer computes its router logits.
enum class RouterKind {
  kNone,       ///< no routing: plain multi-head attention
  kLearned,    ///< linear maps of the layer's input (arXiv 2410.11842)
  kQueryNorm,  ///< norms of the queries, without parameters (MoH-LLaMA3); gates are 0 or 1 (kBinary)
};

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
  RouterKind kind = RouterKind::kNone;
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

  std::int64_t query_heads() const { return router.heads * unit_heads; }
};

/// The routed heads that a token keeps in training when the share `progress` of it is done: all E of them at
/// its start, router.top_k from top_k_anneal_until on, and each number between for an equal time,
///   K = top_k + ceil((E - top_k) (1 - progress / top_k_anneal_until)).
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

/// Results of routing one layer, for the loss and for metrics.
struct LayerRouting {
  Variable balance;                            ///< undefined without routed heads
  Tensor load;                                 ///< [E], of HeadKinds::routed; undefined without routed heads
  Variable z_loss;                             ///< undefined unless HeadRoutingOptions::z_loss
  std::int64_t computed_heads = 0, heads = 0;  ///< of a token, see computed_heads(); of the layer
  /// Where steps differ in them, scalars on the device: computed heads of a token, on average, and, where it
  /// is annealed, K, in units. Else undefined.
  Tensor heads_each = {}, top_k = {};
  /// router_statistics() of a training pass, with a margin if the router refuses heads, with a weight if it
  /// has two stages; else undefined.
  Tensor statistics = {};
  bool two_stage = false, refuses = false;
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
  Tensor heads_each = {}, top_k = {};  ///< see LayerRouting
  Tensor statistics = {};              ///< likewise, and these
  bool two_stage = false, refuses = false;
  Tensor pairs = {};  ///< those of the lists as uint8 [B, T, H]; undefined while shared heads are learned

  bool projects_chosen_heads() const { return lists_of_heads.rows.defined(); }
};

/// The dtype of the router's matrices in a model of `model_dtype`.
DType router_dtype(RouterPrecision precision, DType model_dtype);

/// The router of one attention layer. Parameters, without biases, present when their width is not 0 (see
/// router_widths): `wg` [E, D] routed, `wg_0` [2, D] type, `wg_1` [S, D] shared, named as in the released
/// code. Where the shared heads are learned, wg and wg_1 have a row for each head of the layer, by number,
/// and SharedMasks its parameters; a training pass is then route_masked_heads, an evaluation the plain
/// routing with the shared heads of the moment.
class HeadRouter : public Module {
 public:
  /// Throws ValueError for head counts that contradict each other.
  HeadRouter(std::int64_t width, std::int64_t kv_heads, std::int64_t head_dim,
             const HeadRoutingOptions& options, Placement placement);

  /// x [B, T, D] is the layer's input after its norm; q [B, T, H, d] are its queries before the rotary
  /// embedding, read by kQueryNorm only. Logits and gates are float32. `layer` is the layer's number, for
  /// `context`. In training, masks of learned shared heads are drawn, and K may be annealed; other passes
  /// keep top_k heads at any time.
  HeadChoice operator()(const Variable& x, const Variable& q, const ForwardContext& context = {},
                        std::int64_t layer = 0) const;

  /// With the shared heads of the moment, if they are learned.
  HeadRoutingOptions options() const;
  /// See Model::set_progress.
  bool set_progress(double share);
  /// Whether K has its last value.
  bool settled() const { return progress_ >= options_.top_k_anneal_until; }

 private:
  struct Logits {
    Variable routed, type, shared;  ///< [B T, heads or types]; undefined without a router matrix
  };
  /// The heads of each kind where they are learned, and what kernels read of them.
  struct LearnedHeads {
    HeadKinds kinds;
    Tensor order, shared_rows, routed_rows;  ///< head_order(), and the rows of wg_1 and wg
  };
  LearnedHeads learned_heads() const;
  Logits learned_logits(const Variable& x, const LearnedHeads* heads) const;
  void add_statistics(HeadChoice& choice, const Logits& logits) const;
  HeadChoice masked_choice(const Variable& x, Generator& draws, const Tensor& balance_load) const;
  HeadLists lists_of_heads(const Tensor& to_compute, const HeadLists& lists, std::int64_t per_token) const;

  std::int64_t kv_heads_, head_dim_;
  HeadRoutingOptions options_;
  double progress_ = 0;
  Tensor order_;  ///< head_order(); undefined where the first heads are shared
  std::unique_ptr<Linear> routed_, type_, shared_;
  std::unique_ptr<SharedMasks> masks_;  // null unless the shared heads are learned
  std::optional<LearnedHeads> fixed_;   // since they were fixed: a captured step copies nothing from the host
};

/// Projections between tokens [B, T, D] and heads, dense, or for the selected pairs only where that is
/// faster. to_heads returns queries [B, T, H, d]; if `map` packs queries, keys and values, [B, T, H + 2 G,
/// d], of which only queries are restricted. from_heads is the output projection, [B, T, H, d] to [B, T, D].
Variable to_heads(const Linear& map, const Variable& x, std::int64_t head_dim, const HeadChoice* choice);
Variable from_heads(const Linear& map, const Variable& heads, const HeadChoice* choice);

/// The outputs of the heads, [B, T, H, d], times `scales` [H]; unchanged if `scales` is undefined.
Variable scaled_heads(const Variable& heads, const Variable& scales);

/// The summary of a layer's routing.
LayerRouting summarize(const HeadChoice& choice);

}  // namespace moh
