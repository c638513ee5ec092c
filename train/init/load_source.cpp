#include "train/init/load_source.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/config/model_agreement.h"
#include "train/init/new_rows.h"
#include "train/metrics/logging.h"

namespace moh {

namespace {

bool has_rows_of_tokens(std::string_view name) {
  return name == "model.embed_tokens.weight" || name == "lm_head.weight";
}

/// A matrix with more rows than the source has.
struct Growth {
  NamedParameter parameter;
  std::int64_t old_rows;
};

/// Replaces parameters that grow by their first rows, which is what the source fills.
std::vector<Growth> take_growth(std::vector<NamedParameter>& parameters, const WeightFile& weights) {
  std::vector<Growth> found;
  for (NamedParameter& p : parameters) {
    if (!has_rows_of_tokens(p.name)) continue;
    const auto info = std::ranges::find(weights.tensors(), p.name, &WeightInfo::name);
    if (info == weights.tensors().end() || info->shape.rank() != 2) continue;
    const std::int64_t rows = info->shape[0];
    if (info->shape[1] != p.variable.dim(1) || rows < 1 || rows >= p.variable.dim(0)) continue;
    found.push_back({p, rows});
    p.variable = Variable(p.variable.value().slice(0, rows));
  }
  return found;
}

/// The missing names that are routers' and may be missing, as the source has no router at all.
std::vector<std::string> take_routers(WeightDifferences& differences, const WeightFile& weights) {
  if (std::ranges::any_of(weights.tensors(), is_router_weight, &WeightInfo::name)) return {};
  std::vector<std::string> routers;
  std::ranges::copy_if(differences.missing, std::back_inserter(routers), is_router_weight);
  std::erase_if(differences.missing, is_router_weight);
  return routers;
}

/// Opens what init.from names; messages say that it was that key which named it.
ModelSource open_named(const InitConfig& init) {
  try {
    return open_model_source(init.from, init.part);
  } catch (const CheckpointError& error) {
    throw CheckpointError(std::string("init.from: ") + error.what());
  }
}

}  // namespace

ModelSource open_source(const RunConfig& config) {
  ModelSource source = open_named(config.init);
  if (!source.model) return source;
  std::string text;
  for (const ModelDisagreement& d : disagreements(config.model, *source.model))
    text += "\n  " + d.key + ": expected " + d.expected + ", found " + d.found;
  if (!text.empty())
    throw ConfigError("init.from: " + config.init.from + ": is another model than `model` describes:" + text);
  return source;
}

std::vector<NamedParameter> load_source(const Llama& model, const ModelSource& source,
                                        const RunConfig& config) {
  const WeightFile& weights = *source.weights;
  const std::vector<NamedParameter> all = model.parameters();
  std::vector<NamedParameter> to_load = all;
  const std::vector<Growth> growths = take_growth(to_load, weights);
  WeightDifferences differences = compare_weights(to_load, weights);
  const std::vector<std::string> routers = take_routers(differences, weights);
  if (!differences.none()) {
    throw CheckpointError("init.from: " + weights.path().string() +
                          ": the tensors are not those of the model: " + list(differences));
  }
  load_weights(to_load, weights);
  for (const Growth& growth : growths) {
    const auto& [name, variable] = growth.parameter;
    log_info("init: " + name + ": " + std::to_string(growth.old_rows) + " rows grow to " +
             std::to_string(variable.dim(0)));
    fill_new_rows(variable.value(), growth.old_rows, config.init.new_rows, config.model.init_std,
                  initialisation_key(static_cast<std::uint64_t>(config.seed), name));
  }
  std::vector<NamedParameter> missing;
  std::ranges::copy_if(all, std::back_inserter(missing), [&](const NamedParameter& p) {
    return std::ranges::find(routers, p.name) != routers.end();
  });
  return missing;
}

std::optional<ModelConfig> model_of_source(const RunConfig& run, bool sizes_given) {
  if (sizes_given || run.model.preset != ModelConfig::kNoPreset) return std::nullopt;
  const ModelSource source = open_named(run.init);
  if (!source.model) {
    throw ConfigError(
        error_message("init.from", run.init.from, "a configuration beside the weights", "weights alone",
                      "name a folder with config.json, set model.preset, or every key of model"));
  }
  ModelConfig model = *source.model;
  if (run.init.moh.router != RouterChoice::kNone) model.moh = {};
  return model;
}

}  // namespace moh
