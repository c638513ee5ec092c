#include "train/trainer/task/model_config.h"

#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/trainer/config/copy_fields.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/hf/config_json.h"

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
  found.require_told(weights.path(), [&](std::string_view key) { return file.gives(key); });
  config::copy_fields(*file.run().family, found.untold, *found.model);
  return std::move(found.model);
}

}  // namespace

std::unique_ptr<FamilyConfig> read_model_config(const fs::path& file, const Families& families,
                                                const std::vector<std::string>& settings) {
  if (file.extension() == ".json") return read_config_json(file, families);
  RunFile run(file.string(), settings, families.configs());
  return finish_run(run, families, ConfigUse::kModel).family->clone();
}

std::string assumed_values(const fs::path& yaml, const Families& families) {
  if (yaml.extension() == ".json") return {};  // missing keys have the defaults of transformers
  const RunFile file(yaml.string(), {}, families.configs());
  return file.leaves_model_open() ? "" : file.left_to_defaults(config::FieldProperty::kUnseenInWeights);
}

TensorModel model_in_tensors(const WeightFile& weights, const Families& families) {
  for (const Family* family : families.all()) {
    TensorModel found;
    found.model = family->weight_names().model_in(weights, found.untold);
    if (found.model != nullptr) return found;
  }
  return {};
}

void TensorModel::require_told(const fs::path& weights, FunctionRef<bool(std::string_view key)> given) const {
  std::string keys;
  for (const std::string& key : untold) {
    if (!given(key)) keys += (keys.empty() ? "" : ", ") + key;
  }
  if (keys.empty()) return;
  throw ConfigError(error_message(weights.string(), "model", "what its tensors do not tell",
                                  "nothing that says it", "give " + keys));
}

void log_notes(const RunFile& file, std::size_t first) {
  for (std::size_t i = first; i < file.notes().size(); ++i) log_warning(file.notes()[i]);
}

RunConfig finish_run(RunFile& file, const Families& families, ConfigUse use) {
  if (!file.leaves_model_open()) return file.finish(use);
  const StoredModel source = StoredModel::of_init(file.run(), families);
  if (source.config() != nullptr) return file.finish(use, source.config());
  return file.finish(use, described_by_run(file, source.weights(), families).get());
}

}  // namespace moh
