#pragma once

#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "models/layers/head_routing_options.h"

namespace moh {

/// Some heads of a layer.
struct HeadGroup {
  std::string_view name;            ///< "all", "shared" or "routed"
  std::vector<std::int64_t> heads;  ///< by number, ascending
};

/// The heads of one attention layer. A dense layer has neither shared nor routed ones.
struct LayerHeads {
  std::int64_t heads = 0;
  std::vector<std::int64_t> shared;  ///< numbers, ascending: active for every token
  std::vector<std::int64_t> routed;  ///< numbers of the others, ascending: each token selects `top_k` of them
  std::int64_t top_k = 0;

  bool is_moh() const { return !shared.empty() || !routed.empty(); }
  /// "all", and "shared" and "routed" if the layer has such heads.
  std::vector<HeadGroup> groups() const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(heads));
    std::iota(all.begin(), all.end(), 0);
    std::vector<HeadGroup> found = {{"all", std::move(all)}};
    if (!shared.empty()) found.push_back({"shared", shared});
    if (!routed.empty()) found.push_back({"routed", routed});
    return found;
  }
};

/// The heads of each layer of a model, from Model::routing().
inline std::vector<LayerHeads> layer_heads_of(const std::vector<HeadRoutingOptions>& layers_of_model) {
  std::vector<LayerHeads> layers;
  for (const HeadRoutingOptions& routing : layers_of_model) {
    LayerHeads& heads = layers.emplace_back(LayerHeads{.heads = routing.query_heads()});
    if (!routing.kind->routes()) continue;
    HeadKinds kinds = query_head_kinds(routing);
    heads.shared = std::move(kinds.shared);
    heads.routed = std::move(kinds.routed);
    heads.top_k = routing.router.top_k * routing.unit_heads;
  }
  return layers;
}

}  // namespace moh
