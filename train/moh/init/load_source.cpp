#include "train/moh/init/load_source.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/log/logging.h"
#include "train/moh/init/new_rows.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

/// A matrix with more rows than the source has.
struct Growth {
  NamedParameter parameter;
  std::int64_t old_rows;
};

/// Replaces parameters that grow by their first rows, which is what the source fills.
std::vector<Growth> take_growth(std::vector<NamedParameter>& parameters, const WeightFile& weights,
                                const WeightNames& names) {
  std::vector<Growth> found;
  for (NamedParameter& p : parameters) {
    if (!names.rows_may_grow(p.name)) continue;
    const WeightInfo* info = weights.find(p.name);
    if (info == nullptr || info->shape.rank() != 2) continue;
    const std::int64_t rows = info->shape[0];
    if (info->shape[1] != p.variable.dim(1) || rows < 1 || rows >= p.variable.dim(0)) continue;
    found.push_back({p, rows});
    p.variable = Variable(p.variable.value().slice(0, rows));
  }
  return found;
}

/// The parameters of routers, which may all be missing where the source has none of them.
std::vector<NamedParameter> take_routers(const Model& model, const WeightFile& weights,
                                         WeightDifferences& differences) {
  std::vector<NamedParameter> routers = router_parameters(model);
  if (std::ranges::any_of(routers, [&](const NamedParameter& p) { return weights.find(p.name) != nullptr; }))
    return {};
  std::erase_if(differences.missing, [&](const std::string& name) {
    return std::ranges::find(routers, name, &NamedParameter::name) != routers.end();
  });
  return routers;
}

}  // namespace

ModelSource open_source(const RunConfig& run, const Families& families) {
  ModelSource source = open_init_source(run, families);
  if (source.model == nullptr) return source;
  std::string text;
  for (const ModelDisagreement& d : run.family->disagreements(*source.model))
    text += "\n  " + d.key + ": expected " + d.expected + ", found " + d.found;
  if (!text.empty())
    throw ConfigError("init.from: " + run.init.from + ": is another model than `model` describes:" + text);
  return source;
}

std::vector<NamedParameter> load_source(const Model& model, const ModelSource& source, const RunConfig& run,
                                        const Family& family) {
  const WeightFile& weights = *source.weights;
  std::vector<NamedParameter> to_load = model.parameters();
  const std::vector<Growth> growths = take_growth(to_load, weights, family.weight_names());
  WeightDifferences differences =
      compare_weights(infos_of(tensors_of(to_load)), weights, &family.weight_names());
  std::vector<NamedParameter> missing_routers = take_routers(model, weights, differences);
  if (!differences.none()) {
    throw CheckpointError("init.from: " + weights.path().string() +
                          ": the tensors are not those of the model: " + list(differences));
  }
  load_weights(to_load, weights);
  for (const Growth& growth : growths) {
    const auto& [name, variable] = growth.parameter;
    log_info("init: " + name + ": " + std::to_string(growth.old_rows) + " rows grow to " +
             std::to_string(variable.dim(0)));
    fill_new_rows(variable.value(), growth.old_rows, run.init.new_rows, model.init_std(),
                  initialisation_key(run.random_seed(), name));
  }
  return missing_routers;
}

}  // namespace moh
