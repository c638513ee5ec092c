#include "models/model.h"

#include <algorithm>

#include "models/active_heads.h"
#include "models/late_parameters.h"
#include "models/layers/head_routing.h"

namespace moh {

bool is_routed(const Model& model) {
  return std::ranges::any_of(model.routers(), [](const HeadRouter* router) { return router != nullptr; });
}

bool is_settled(const Model& model) {
  return std::ranges::all_of(model.routers(),
                             [](const HeadRouter* r) { return r == nullptr || r->settled(); });
}

bool progress_writes_parameters(const Model& model) {
  return std::ranges::any_of(model.routing(),
                             [](const HeadRoutingOptions& layer) { return layer.learn_shared_until > 0; });
}

double activated_heads(std::span<const HeadRoutingOptions> layers, bool training) {
  std::int64_t active = 0, all = 0;
  for (const HeadRoutingOptions& layer : layers) {
    active += computed_heads(layer, training);
    all += layer.query_heads();
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
      const auto same = [&](const NamedParameter& p) { return p.variable.value().is_same(value); };
      found.push_back(*std::ranges::find_if(all, same));
    }
  }
  return found;
}

void initialise_routers(const Model& model, RouterInit init) {
  fill_each(router_parameters(model), [&](const NamedParameter& p) {
    if (init == RouterInit::kZeros || p.variable.shape().rank() == 1) p.variable.value().fill(0.0);
  });
}

std::vector<HeadRoutingOptions> with_learned_heads(const Model& model,
                                                   std::vector<HeadRoutingOptions> routing) {
  const std::vector<const HeadRouter*> routers = model.routers();
  for (std::size_t i = 0; i < routing.size(); ++i) {
    if (routing[i].learn_shared_until > 0) routing[i] = routers[i]->options();
  }
  return routing;
}

std::string describe_active_heads(const Model& model) {
  return is_routed(model) ? describe(head_counts(model.routing())) : "100%";
}

}  // namespace moh
