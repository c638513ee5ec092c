#include "train/trainer/task/model_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/trainer/config/copy_fields.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/compare_weights.h"
#include "train/weights/foreign_formats.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/renamed_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// "vit or dit": the model types that the families support.
std::string known_model_types(const Families& families) {
  std::vector<std::string_view> types;
  for (const Family* family : families.all()) {
    for (std::string_view type : family->weight_names().model_types()) types.push_back(type);
  }
  std::string text;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i > 0) text += i + 1 < types.size() ? ", " : " or ";
    text += types[i];
  }
  return text;
}

std::unique_ptr<FamilyConfig> read_config_json(const fs::path& path, const Families& families) {
  const ConfigJson json(path);
  for (const Family* family : families.all()) {
    const WeightNames& names = family->weight_names();
    if (names.recognises(json)) return names.read_config(path);
  }
  json.unsupported("model_type", known_model_types(families), printable(json.text("model_type")));
}

/// The model of a run's YAML, which may be that of its own init.from; but not if another run starts from this
/// one, as a configuration that a run wrote describes the model itself.
std::unique_ptr<FamilyConfig> read_yaml(const fs::path& path, const std::vector<std::string>& settings,
                                        const Families& families, bool begins_a_run) {
  RunFile file(path.string(), settings, families.configs());
  if (begins_a_run && file.leaves_model_open()) {
    throw ConfigError(error_message(path.string(), "model",
                                    "every key, as the configuration beside a checkpoint has them",
                                    "a model that is left to init.from"));
  }
  return finish_run(file, families, ConfigUse::kModel).family->clone();
}

/// A model that its tensors tell.
std::unique_ptr<FamilyConfig> known_model(const WeightFile& weights, const Families& families) {
  for (const Family* family : families.all()) {
    if (auto model = family->weight_names().published_model(weights)) return model;
  }
  TensorModel found = model_in_tensors(weights, families);
  return found.untold.empty() ? std::move(found.model) : nullptr;
}

std::unique_ptr<FamilyConfig> read_config(const ModelLocation& location, const Families& families,
                                          const std::string& part, bool begins_a_run) {
  if (location.config.empty()) return known_model(*open_weights(location, part), families);
  if (location.is_checkpoint)
    StoredCheckpoint(location.weights, LoadScope::kModelOnly);  // verifies its configuration
  if (location.config.extension() == ".json") return read_config_json(location.config, families);
  std::vector<std::string> settings;
  if (location.is_checkpoint) settings = settings_of_checkpoint(location.weights, families);
  return read_yaml(location.config, settings, families, begins_a_run);
}

/// For a run that starts from weights without a configuration: throws unless the run describes the model.
void require_description(const RunFile& file) {
  const std::vector<std::string> missing = file.missing_model_keys();
  if (missing.empty()) return;
  std::string keys;
  for (const std::string& key : missing) keys += (keys.empty() ? "" : ", ") + key;
  throw ConfigError(error_message("init.from", file.run().init.from,
                                  "a configuration next to the weights, or in the run", "neither",
                                  "give " + keys + ", or model.preset, or name a folder with config.json"));
}

/// The configuration for weights of which a family knows the tensors: sizes are theirs, and the run gives the
/// rest. Null if the run describes all of the model.
std::unique_ptr<FamilyConfig> described_by_run(const RunFile& file, const WeightFile& weights,
                                               const Families& families) {
  TensorModel found = model_in_tensors(weights, families);
  if (found.model == nullptr || found.model->task() != file.run().family->task()) {
    require_description(file);
    return nullptr;
  }
  require_told(weights.path(), found, [&](std::string_view key) { return file.gives(key); });
  config::copy_fields(*file.run().family, found.untold, *found.model);
  return std::move(found.model);
}

}  // namespace

std::unique_ptr<FamilyConfig> read_model_config(const ModelLocation& location, const Families& families,
                                                const std::string& part) {
  return read_config(location, families, part, /*begins_a_run=*/false);
}

void ModelSource::check_described(const Families& families) const {
  if (model == nullptr) return;
  WeightDifferences found = compare_weights(expected_tensors(families.of(*model), *model), *weights);
  found.unexpected.clear();
  if (found.none()) return;
  throw CheckpointError("init.from: " + weights->path().string() +
                        ": the tensors do not match the model that " + config.string() +
                        " describes: " + list(found));
}

std::vector<std::string> settings_of_checkpoint(const fs::path& step_folder, const Families& families) {
  const RunFile file((step_folder / kConfigFile).string(), {}, families.configs());
  return families.of(file.run()).weight_names().settings_in(step_folder);
}

TensorModel model_in_tensors(const WeightFile& weights, const Families& families) {
  for (const Family* family : families.all()) {
    TensorModel found;
    found.model = family->weight_names().model_in(weights, found.untold);
    if (found.model != nullptr) return found;
  }
  return {};
}

void require_told(const fs::path& weights, const TensorModel& model,
                  FunctionRef<bool(std::string_view key)> given) {
  std::string keys;
  for (const std::string& key : model.untold) {
    if (!given(key)) keys += (keys.empty() ? "" : ", ") + key;
  }
  if (keys.empty()) return;
  throw ConfigError(error_message(weights.string(), "model", "what its tensors do not tell",
                                  "nothing that says it", "give " + keys));
}

std::string assumed_values(const fs::path& yaml, const Families& families) {
  if (yaml.extension() == ".json") return {};  // missing keys have the defaults of transformers
  const RunFile file(yaml.string(), {}, families.configs());
  return file.leaves_model_open() ? "" : file.left_to_defaults(config::FieldProperty::kUnseenInWeights);
}

ModelSource open_init_source(const RunConfig& run, const Families& families) {
  try {
    const ModelLocation location = locate_model(run.init.from);
    ModelSource source{open_weights(location, run.init.part),
                       read_config(location, families, run.init.part, /*begins_a_run=*/true),
                       location.config};
    if (source.model == nullptr) refuse_foreign_names(*source.weights);
    if (source.model != nullptr) {
      const Family& family = families.of(*source.model);
      source.weights = under_names_of(expected_tensors(family, *source.model), family.weight_names(),
                                      std::move(source.weights));
    }
    if (source.config.empty()) source.config = location.weights;
    return source;
  } catch (const CheckpointError& error) {
    throw CheckpointError(std::string("init.from: ") + error.what());
  }
}

RunConfig finish_run(RunFile& file, const Families& families, ConfigUse use) {
  std::unique_ptr<FamilyConfig> model;
  if (file.leaves_model_open()) {
    ModelSource source = open_init_source(file.run(), families);
    model = std::move(source.model);
    if (model == nullptr) model = described_by_run(file, *source.weights, families);
  }
  return file.finish(use, model.get());
}

}  // namespace moh
