#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "models/layers/registry.h"
#include "models/module.h"
#include "ops/moh/router_options.h"

namespace moh {

/// Inputs that a layer has for its router.
struct LayerInput {
  Variable x;               ///< [B, T, D], the layer's input after its norm
  Variable queries = {};    ///< [B, T, H, d] before the rotary embedding, for RouterType::reads_queries
  Variable condition = {};  ///< [B, D], a vector per sample, for RouterType::reads_condition
};

/// The heads behind a router's logits. While the shared heads are learned (RouterType::learns_shared), its
/// matrices have a row for each head of the layer, and `shared` and `routed` are the rows to take, int64;
/// elsewhere these are undefined, and all rows are taken.
struct RouterHeads {
  Tensor order;  ///< head_order(); undefined where the first heads are shared
  Tensor shared = {}, routed = {};
};

/// Logits of N rows, the B T tokens or, with RouterType::per_sample, the B samples, in float32 (float64 for
/// float64): each [N, its width in RouterWidths], undefined where that is 0. Or `packed` has those of all
/// `widths` beside each other, as route_heads_packed() takes them, and the others are undefined.
struct RouterLogits {
  Variable routed, type, shared;
  Variable packed = {};
  RouterWidths widths = {};  ///< of `packed`

  RouterLogits unpacked() const;
};

/// Computes the logits of one layer. Its parameters become those of the attention layer, under their own
/// names.
class Router : public Module {
 public:
  virtual RouterLogits logits(const LayerInput& in, const RouterHeads& heads) const = 0;
};

/// Sizes of a router. `widths` are those of router_widths(), or rows for every head of the layer while the
/// shared heads are learned.
struct RouterSizes {
  std::int64_t width = 0;  ///< D
  RouterOptions options;
  RouterWidths widths;
};

/// A way to compute the logits of heads: `model.moh.router` is its name. All else in the program follows from
/// these properties; CONTRIBUTING.md says how one is added.
struct RouterType {
  std::string_view name;
  std::string_view doc;  ///< a sentence for docs/config.md, which follows the name and a colon
  /// Null: the layer is dense, and has no router.
  std::unique_ptr<Router> (*make)(const RouterSizes& sizes, Placement placement) = nullptr;
  bool reads_queries = false;    ///< so that queries of all heads are projected before the routing
  bool reads_condition = false;  ///< needs a family whose layers have a condition
  bool per_sample = false;       ///< one selection for all tokens of a sample
  bool keeps_shared = false;     ///< tokens have the shared heads and no others: top_k is 0
  bool binary_gates = false;     ///< GateScaling::kBinary: selected heads have weight 1
  bool learns_shared = false;    ///< follows RouterHeads: moh.learn_shared_until
  bool fits_input = false;  ///< wg maps x to the routed logits: init.moh.router_start: calibrated fits it
  /// If not empty, a layer needs two routed heads, because the router ...
  std::string_view needs_two = {};

  bool routes() const { return make != nullptr; }

  static Registry<RouterType>& registry();
};

/// RouterType::make of a router with the constructor (RouterSizes, Placement).
template <class R>
std::unique_ptr<Router> make_router(const RouterSizes& sizes, Placement placement) {
  return std::make_unique<R>(sizes, placement);
}

using RouterKey = Registered<RouterType>;

/// Inputs that the layers of a family have for routers, besides their own.
struct RouterSources {
  bool queries = false, condition = false;
};

/// Why a layer with these sources cannot have the type; empty if it can. "query_norm reads the
/// queries, which ..."
std::string why_unreadable(const RouterType& type, RouterSources sources);
/// The names of the registered types that can be used: "none, learned".
std::string readable_routers(RouterSources sources);

}  // namespace moh
