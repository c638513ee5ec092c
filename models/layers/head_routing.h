#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/layers/linear.h"
#include "models/module.h"
#include "ops/attention/head_lists.h"
#include "ops/moh/head_router.h"

namespace moh {

/// Where a layer's router logits come from.
enum class RouterKind {
  kNone,       ///< no routing: plain multi-head attention
  kLearned,    ///< linear maps of the layer's input (arXiv 2410.11842)
  kQueryNorm,  ///< norms of the queries, without parameters (MoH-LLaMA3); gates are kBinary
};

/// Which gate gradients the straight-through estimator of binary gates uses.
enum class StraightThrough {
  kNone,      ///< none: the router learns from the load-balance loss only
  kSelected,  ///< those of the selected heads, the only ones that are computed
  kAll,       ///< those of all routed heads: costs the attention of every head
};

/// What the matrices of learned routers are stored in.
enum class RouterPrecision {
  kSame,     ///< as the rest of the model
  kFloat32,  ///< float32 in a bfloat16 model
};

/// Routing of one layer.
struct HeadRoutingOptions {
  RouterKind kind = RouterKind::kNone;
  RouterOptions router;
  StraightThrough straight_through = StraightThrough::kSelected;
  /// Which heads are shared: router.num_shared of them, or empty for the first ones. HeadRouter makes
  /// the router's order from it.
  std::vector<std::int64_t> shared_heads = {};
  RouterPrecision precision = RouterPrecision::kSame;
};

/// The heads of a layer by number, each kind ascending: a router counts them in this order, shared ones
/// first.
struct HeadKinds {
  std::vector<std::int64_t> shared, routed;
};
/// Throws ValueError as head_order() does.
HeadKinds head_kinds(const HeadRoutingOptions& options);

/// Heads of a token whose attention is computed: the selected ones, or, where a backward pass follows, all of
/// them for an estimator that wants every gate's gradient (StraightThrough::kAll).
std::int64_t computed_heads(const HeadRoutingOptions& options, bool backward_follows);

/// What routing one layer came to, for the loss and for people.
struct LayerRouting {
  Variable balance;  ///< undefined without routed heads
  Tensor load;       ///< [E], of HeadKinds::routed; undefined without routed heads
  std::int64_t computed_heads = 0, heads = 0;
};

/// What attention, or a layer that holds it, returns.
struct LayerOutput {
  Variable y;                           ///< [B, T, D]
  std::optional<LayerRouting> routing;  ///< absent in a dense layer
};

/// Gates of a layer with the lists of pairs to compute.
struct HeadChoice {
  Variable gates;  ///< [B, T, H]
  HeadLists lists;
  /// The same pairs, one list per head, where projecting the chosen heads alone is faster than projecting all
  /// of them; without rows where it is not.
  HeadLists lists_of_heads;
  Routing routing;

  bool projects_chosen_heads() const { return lists_of_heads.rows.defined(); }
};

/// The dtype of the router's matrices in a model of `model_dtype`.
DType router_dtype(RouterPrecision precision, DType model_dtype);

/// The router of one attention layer. Parameters, none with a bias, present when their width is not 0 (see
/// router_widths): `wg` [E, D] routed, `wg_0` [2, D] type, `wg_1` [S, D] shared: the names of the released
/// code.
class HeadRouter : public Module {
 public:
  /// Throws ValueError for head counts that contradict each other.
  HeadRouter(std::int64_t width, std::int64_t kv_heads, std::int64_t head_dim,
             const HeadRoutingOptions& options, Placement placement);

  /// x [B, T, D] is the layer's input after its norm; q [B, T, H, d] are its queries before the rotary
  /// embedding, read by kQueryNorm only. Logits and gates are float32. `forced_top` as in route_heads.
  HeadChoice operator()(const Variable& x, const Variable& q, const Tensor& forced_top = {}) const;

  const HeadRoutingOptions& options() const { return options_; }

 private:
  struct Logits {
    Variable routed, type, shared;  ///< [B T, heads or types]; undefined without a map
  };
  Logits learned_logits(const Variable& x) const;
  HeadLists lists_of_heads(const Tensor& to_compute, const HeadLists& lists, std::int64_t per_token) const;

  std::int64_t kv_heads_, head_dim_;
  HeadRoutingOptions options_;
  Tensor order_;  ///< head_order(); undefined where the first heads are shared
  std::unique_ptr<Linear> routed_, type_, shared_;
};

/// The queries of chosen heads, [B, T, H, d], or, where `map` gives keys and values as well, all of them; and
/// the way back, [B, T, H, d] to [B, T, D]: dense, or for the pairs of the choice alone where that is faster.
Variable to_heads(const Linear& map, const Variable& x, std::int64_t head_dim, const HeadChoice* choice);
Variable from_heads(const Linear& map, const Variable& heads, const HeadChoice* choice);

/// The outputs of the heads, [B, T, H, d], times `scales` [H]; as they are where that is undefined.
Variable scaled_heads(const Variable& heads, const Variable& scales);

/// The summary of a layer's routing; balance and load are undefined without routed heads.
LayerRouting summarize(const Variable& balance, const Tensor& load, const HeadRoutingOptions& options);

}  // namespace moh
