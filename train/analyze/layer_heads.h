#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"

namespace moh {

/// Neighbouring heads [first, first + count) of a layer.
struct HeadGroup {
  std::string_view name;  ///< "all", "shared" or "routed"
  std::int64_t first = 0, count = 0;
};

/// The heads of one attention layer. A dense layer has neither shared nor routed ones.
struct LayerHeads {
  std::int64_t heads = 0;
  std::int64_t shared = 0;  ///< heads 0 ... shared - 1 are on for every token
  std::int64_t routed = 0;  ///< of the others, each token keeps `top_k`
  std::int64_t top_k = 0;

  bool is_moh() const { return shared + routed > 0; }
  /// All heads; in a MoH layer also the shared and the routed ones, where there are any.
  std::vector<HeadGroup> groups() const {
    std::vector<HeadGroup> found = {{"all", 0, heads}};
    if (shared > 0) found.push_back({"shared", 0, shared});
    if (routed > 0) found.push_back({"routed", shared, routed});
    return found;
  }
};

/// Of every layer of a model, in order.
inline std::vector<LayerHeads> layer_heads_of(const LlamaConfig& config) {
  std::vector<LayerHeads> layers;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const HeadRoutingOptions routing = routing_of(config, i);
    LayerHeads heads{.heads = config.heads};
    if (routing.kind != RouterKind::kNone) {
      heads.shared = routing.router.shared;
      heads.routed = config.heads - heads.shared;
      heads.top_k = routing.router.top_k;
    }
    layers.push_back(heads);
  }
  return layers;
}

}  // namespace moh
