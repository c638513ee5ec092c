#include "models/layers/routers.h"

namespace moh {

const RouterType kDenseLayer{.name = "none", .doc = "every head is active, a dense model."};

Registry<RouterType>& RouterType::registry() {
  static Registry<RouterType> types(
      "routers", {&kDenseLayer, &kLearnedRouter, &kQueryNormRouter, &kConditionRouter, &kStaticRouter});
  return types;
}

std::string why_unreadable(const RouterType& type, RouterSources sources) {
  const std::string name(type.name);
  if (type.reads_queries && !sources.queries)
    return name + " reads the queries, which these models project after the routing";
  if (type.reads_condition && !sources.condition)
    return name + " reads the condition of a sample, which only diffusion transformers have";
  return "";
}

std::string readable_routers(RouterSources sources) {
  std::string names;
  for (const RouterType* type : RouterType::registry().all()) {
    if (!why_unreadable(*type, sources).empty()) continue;
    names.append(names.empty() ? "" : ", ").append(type->name);
  }
  return names;
}

}  // namespace moh
