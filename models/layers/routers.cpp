#include "models/layers/routers.h"

#include <utility>
#include <vector>

#include "ops/shape/split.h"

namespace moh {

const RouterType kDenseLayer{.name = "none", .doc = "every head is active, a dense model."};

Registry<RouterType>& RouterType::registry() {
  static Registry<RouterType> types(
      "routers", {&kDenseLayer, &kLearnedRouter, &kQueryNormRouter, &kConditionRouter, &kStaticRouter});
  return types;
}

RouterLogits RouterLogits::unpacked() const {
  if (!packed.defined()) return *this;
  RouterLogits result;
  std::vector<Variable*> places;
  std::vector<std::int64_t> parts;
  for (const auto& [place, width] :
       {std::pair{&result.routed, widths.routed}, std::pair{&result.type, widths.type},
        std::pair{&result.shared, widths.shared}}) {
    if (width == 0) continue;
    places.push_back(place);
    parts.push_back(width);
  }
  const std::vector<Variable> columns = split(packed, parts);
  for (std::size_t i = 0; i < columns.size(); ++i) *places[i] = columns[i];
  return result;
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
