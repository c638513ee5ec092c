#include "train/trainer/task/stored_model.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/model_config.h"
#include "train/trainer/task/stored_precision.h"
#include "train/weights/averaged_weights.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/checkpoint/train_state.h"
#include "train/weights/foreign_formats.h"
#include "train/weights/merged_weights.h"
#include "train/weights/renamed_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// A model that its tensors tell.
std::unique_ptr<FamilyConfig> known_model(const WeightFile& weights, const Families& families) {
  for (const Family* family : families.all()) {
    if (auto model = family->weight_names().published_model(weights)) return model;
  }
  TensorModel found = model_in_tensors(weights, families);
  return found.untold.empty() ? std::move(found.model) : nullptr;
}

/// Throws if the configuration of a source is that of a run which leaves its model to its own init.from.
void refuse_open_model(const StoredModel& source) {
  const fs::path& yaml = source.location().config;
  if (yaml.empty() || yaml.extension() == ".json") return;
  if (!RunFile(yaml.string(), source.settings(), source.families().configs()).leaves_model_open()) return;
  throw ConfigError(error_message(yaml.string(), "model",
                                  "every key, as the configuration beside a checkpoint has them",
                                  "a model that is left to init.from"));
}

/// Whether a user asks for a moving average, or for none.
bool mention_average(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(
      overrides, [](std::string_view each) { return each.starts_with("ema.") || each.starts_with("ema="); });
}

/// The last `count` checkpoints of a run up to this one, in the order of their steps.
std::vector<fs::path> checkpoints_up_to(const ModelLocation& location, std::int64_t count) {
  const std::string where = location.weights.parent_path().string();
  std::vector<fs::path> folders;
  for (const CheckpointInfo& each : list_checkpoints(location.weights.parent_path())) {
    folders.push_back(each.folder);
    if (each.folder.filename() == location.weights.filename()) break;
  }
  if (std::ssize(folders) < count)
    throw CheckpointError(error_message(
        where, "", std::to_string(count) + " checkpoints up to " + location.weights.filename().string(),
        std::to_string(folders.size()), "checkpoint.keep_last says how many a run keeps"));
  folders.erase(folders.begin(), folders.end() - count);
  return folders;
}

/// The checkpoints of a run that StoredModel::take_mean() averages.
std::vector<fs::path> averaged_checkpoints(const ModelLocation& location,
                                           std::span<const std::int64_t> numbers) {
  if (!location.is_checkpoint)
    throw ConfigError(error_message("--average", "", "a run, or a checkpoint in its folder `checkpoints`",
                                    location.weights.string()));
  if (numbers.size() == 1) return checkpoints_up_to(location, numbers.front());
  const std::set<std::int64_t> steps(numbers.begin(), numbers.end());
  if (steps.size() < numbers.size())
    throw ConfigError(error_message("--average", "", "different steps", "one that comes twice"));
  std::vector<fs::path> folders;
  const fs::path of_run = location.weights.parent_path();
  for (const std::int64_t step : steps) folders.push_back(folder_of_step(of_run, step, of_run.string()));
  return folders;
}

}  // namespace

StoredModel::StoredModel(const fs::path& path, const Families& families, std::string part,
                         TotalSize total_size)
    : path_(path),
      location_(locate_model(path)),
      families_(&families),
      part_(std::move(part)),
      total_size_(total_size) {}

StoredModel StoredModel::of_init(const RunConfig& run, const Families& families) {
  try {
    StoredModel source(run.init.from, families, run.init.part);
    source.weights();
    refuse_open_model(source);
    const FamilyConfig* const model = source.config();
    if (model == nullptr) {
      refuse_foreign_names(source.weights());
    } else {
      const Family& family = families.of(*model);
      source.take_names_of(expected_tensors(family, *model), family.weight_names());
    }
    return source;
  } catch (const CheckpointError& error) {
    throw CheckpointError(std::string("init.from: ") + error.what());
  }
}

void StoredModel::describe_by(const fs::path& file) {
  if (file.empty()) return;
  if (!location_.config.empty())
    throw ConfigError(error_message("--config " + file.string(), "", "weights without a configuration",
                                    "those that " + location_.config.string() + " describes"));
  location_.config = file;
  config_.reset();
}

const StoredCheckpoint& StoredModel::checkpoint() const {
  if (!checkpoint_) checkpoint_.emplace(location_.weights, LoadScope::kModelOnly);
  return *checkpoint_;
}

const WeightFile& StoredModel::weights() const {
  if (weights_ == nullptr) weights_ = open_weights(location_, part_, total_size_);
  return *weights_;
}

void StoredModel::require_same_model(const StoredModel& other) const {
  const auto found = other.config()->other_results(*config());
  if (found.empty()) return;
  const config::Difference& first = found.front();
  throw CheckpointError(error_message(other.path().string(), first.key,
                                      first.expected + ", as in " + path().string(), first.found));
}

void StoredModel::take_mean(std::span<const std::int64_t> numbers) {
  std::vector<std::unique_ptr<WeightFile>> files;
  for (const fs::path& folder : averaged_checkpoints(location_, numbers)) {
    const StoredModel other(folder, *families_, part_);
    require_same_model(other);
    files.push_back(open_weights(other.location_, part_));
  }
  weights_ = averaged(std::move(files));
}

void StoredModel::take_merged(double scale, std::string_view dtype) {
  weights();
  weights_ = merged(std::move(weights_), scale, dtype);
}

void StoredModel::take_names_of(std::span<const WeightInfo> parameters, const ParameterNames& names) {
  weights();
  weights_ = under_names_of(parameters, names, std::move(weights_));
}

// ---- Configuration ----

const FamilyConfig* StoredModel::config() const {
  if (!config_) config_ = read_config();
  return config_->get();
}

std::unique_ptr<FamilyConfig> StoredModel::read_config() const {
  if (location_.config.empty()) return known_model(weights(), *families_);
  return read_model_config(location_.config, *families_, settings());
}

const Family& StoredModel::family() const {
  if (location_.is_checkpoint) return families_->of(run({}, ConfigUse::kModel));
  if (config() != nullptr) return families_->of(*config());
  const TensorModel found = model_in_tensors(weights(), *families_);
  return found.model != nullptr ? families_->of(*found.model) : *families_->all().front();
}

std::vector<std::string> StoredModel::settings() const {
  if (!location_.is_checkpoint) return {};
  return settings_of_checkpoint(checkpoint().folder(), *families_);
}

std::vector<std::string> settings_of_checkpoint(const fs::path& step_folder, const Families& families) {
  const RunFile file((step_folder / kConfigFile).string(), {}, families.configs());
  return families.of(file.run()).weight_names().settings_in(step_folder);
}

// ---- The run of a model ----

RunConfig StoredModel::run(const std::vector<std::string>& settings, ConfigUse use) const {
  if (location_.is_checkpoint) {
    const fs::path file = checkpoint().folder() / kConfigFile;
    return load_run_config(file.string(), settings, families_->configs(), use);
  }
  const std::string name = "the run that " + described_by().string() + " stands for";
  return RunFile::of_text(name, run_text(settings), families_->configs(), settings).finish(use);
}

std::string StoredModel::run_text(const std::vector<std::string>& settings) const {
  RunConfig run = default_run(config() != nullptr ? *config() : *completed_by(settings));
  run.output.dir = fs::path("runs") / (location_.config.empty() ? location_.weights.stem()
                                                                : location_.config.parent_path().filename());
  const std::span<const WeightInfo> tensors = weights().tensors();
  if (!take_precision(tensors, *families_, run) && !tensors.empty() && main_type(tensors) == "BF16")
    run.precision = Precision::kBFloat16;
  return print_resolved(run);
}

/// The model of weights without a configuration, of which tensors tell a part, and settings the rest.
std::unique_ptr<FamilyConfig> StoredModel::completed_by(const std::vector<std::string>& settings) const {
  TensorModel found = model_in_tensors(weights(), *families_);
  const std::string file = location_.weights.string();
  if (found.model == nullptr) {
    refuse_foreign_names(weights());
    throw ConfigError(error_message(
        file, "", "a configuration next to the weights", "none",
        "name a folder with config.json or a run of moh; of a model that you can describe, write its `task` "
        "and `model` into a CONFIG.yaml, and add --config CONFIG.yaml, or name DIR of 'moh convert --from " +
            file + " --to DIR --format moh --config CONFIG.yaml'"));
  }
  found.require_told(location_.weights, [&](std::string_view key) {
    return std::ranges::any_of(
        settings, [&](const std::string& setting) { return setting.starts_with(std::string(key) + "="); });
  });
  return std::move(found.model);
}

// ---- The moving average ----

bool StoredModel::evaluates_average(const std::vector<std::string>& settings) const {
  if (!location_.is_checkpoint) return false;
  const RunConfig stored = run(settings, ConfigUse::kModel);
  return stored.ema.decay > 0 && stored.ema.evaluate;
}

void StoredModel::take_evaluated_part(const std::vector<std::string>& settings,
                                      const std::vector<std::string>& overrides) {
  if (!evaluates_average(settings)) return;
  if (!checkpoint().average().empty()) {
    part_ = kAveragePart;
    weights_.reset();
  } else if (!is_model_only(checkpoint()) || mention_average(overrides)) {
    throw ConfigError(error_message(location_.weights.string(), "ema.evaluate",
                                    "false: this checkpoint has no moving average", "true",
                                    "ema.evaluate=false takes its weights"));
  }
}

bool StoredModel::leaves_average_out() const {
  return evaluates_average({}) && !checkpoint().average().empty();
}

}  // namespace moh
