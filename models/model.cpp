#include "models/model.h"

#include <algorithm>

namespace moh {

bool is_routed(const Model& model) {
  return std::ranges::any_of(model.routers(), [](const HeadRouter* router) { return router != nullptr; });
}

double activated_heads(std::span<const HeadRoutingOptions> layers, bool training) {
  std::int64_t active = 0, all = 0;
  for (const HeadRoutingOptions& layer : layers) {
    active += computed_heads(layer, training);
    all += layer.router.heads;
  }
  return static_cast<double>(active) / static_cast<double>(all);
}

double activated_heads(const Model& model, bool training) {
  return activated_heads(model.routing(), training);
}

std::vector<NamedParameter> router_parameters(const Model& model) {
  std::vector<NamedParameter> found, all = model.parameters();
  for (const HeadRouter* router : model.routers()) {
    if (router == nullptr) continue;
    for (const NamedParameter& of_router : router->parameters()) {
      const Tensor value = of_router.variable.value();
      const auto same = [&](const NamedParameter& p) {
        return p.variable.value().shares_storage_with(value);
      };
      found.push_back(*std::ranges::find_if(all, same));
    }
  }
  return found;
}

}  // namespace moh
