#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/locate_model.h"

namespace moh {

/// A model on disk: a checkpoint of moh, or weights of another program with or without a configuration. The
/// path is looked up once. Weights and configuration are opened when they are first asked for, and kept; that
/// makes calls from several threads at once unsafe.
class StoredModel {
 public:
  /// The model at `path` (locate_model()), of whose weights `part` is taken (open_weights()). Throws
  /// CheckpointError.
  StoredModel(const std::filesystem::path& path, const Families& families, std::string part = {},
              TotalSize total_size = TotalSize::kChecked);

  /// The model of init.from, opened, with the names that its configuration gives its parameters. Throws
  /// CheckpointError, naming that key, and ConfigError, also for a run that leaves its own model to
  /// init.from: a configuration that a run wrote describes the model itself.
  static StoredModel of_init(const RunConfig& run, const Families& families);

  /// Lets `file`, a run's YAML or a config.json, describe weights that come without a configuration; an empty
  /// path: nothing does. Throws ConfigError for weights that have one.
  void describe_by(const std::filesystem::path& file);

  /// Takes the part that commands use: of a checkpoint whose run, with `settings`, has ema.evaluate, the
  /// moving average of the weights. A conversion keeps one set of weights with the configuration of the run
  /// that it came from: that set is taken, unless `overrides`, which are the user's and the last of
  /// `settings`, ask for an average. Throws as run() does, and ConfigError if there is no average.
  void take_evaluated_part(const std::vector<std::string>& settings,
                           const std::vector<std::string>& overrides);

  /// Takes the mean of the weights of checkpoints of a run (averaged_weights.h) in place of its own: of one
  /// number, of so many up to this one; of several, of the checkpoints of these steps. Throws ConfigError for
  /// a model that is no checkpoint, CheckpointError if one of them is not there or incomplete, or they are of
  /// different models.
  void take_mean(std::span<const std::int64_t> numbers);

  /// Takes the weights with the adapters of the model merged into them (merged_weights.h), `dtype` that of
  /// the sums. Throws CheckpointError.
  void take_merged(double scale, std::string_view dtype);

  /// Opens the weights under the names of a model's parameters (under_names_of()).
  void take_names_of(std::span<const WeightInfo> parameters, const ParameterNames& names);

  /// The step folder of a checkpoint, otherwise the path that was given.
  const std::filesystem::path& path() const { return location_.is_checkpoint ? location_.weights : path_; }
  const ModelLocation& location() const { return location_; }
  const Families& families() const { return *families_; }
  /// The file with the configuration, or the weights if they come without one.
  const std::filesystem::path& described_by() const {
    return location_.config.empty() ? location_.weights : location_.config;
  }

  /// Throws as open_weights() does.
  const WeightFile& weights() const;

  /// The configuration stored with the weights (read_model_config()), or that of the model whose tensors
  /// these are (WeightNames::published_model, or model_in() if tensors tell all of it); only `model` is
  /// meaningful. Null if nothing describes the model. Throws ConfigError, CheckpointError.
  const FamilyConfig* config() const;

  /// The family of the model; for weights that no family knows, the first one, whose errors say so. Throws as
  /// run() and config() do.
  const Family& family() const;

  /// Settings by which a checkpoint is used with the files that it carries (settings_of_checkpoint()); they
  /// come before those that a user gives. Its checksums of text files are verified before they are read:
  /// damage is no mistake in a configuration. Throws CheckpointError, ConfigError.
  std::vector<std::string> settings() const;

  /// The run of a checkpoint, verified as by settings(), or the one that other weights stand for: defaults
  /// for everything but the model, in the precision of the weights. Later `settings` go before earlier ones,
  /// and give what tensors without a configuration leave open. Throws CheckpointError, ConfigError.
  RunConfig run(const std::vector<std::string>& settings, ConfigUse use) const;

  /// Whether the weights of a checkpoint are not what its run evaluates, but a moving average that it has,
  /// too. Throws as run() does.
  bool leaves_average_out() const;

 private:
  const StoredCheckpoint& checkpoint() const;
  /// Throws if another checkpoint's configuration gives other results with the same weights.
  void require_same_model(const StoredModel& other) const;
  bool evaluates_average(const std::vector<std::string>& settings) const;
  std::unique_ptr<FamilyConfig> read_config() const;
  std::string run_text(const std::vector<std::string>& settings) const;
  std::unique_ptr<FamilyConfig> completed_by(const std::vector<std::string>& settings) const;

  std::filesystem::path path_;
  ModelLocation location_;
  const Families* families_;
  std::string part_;
  TotalSize total_size_;
  mutable std::optional<StoredCheckpoint> checkpoint_;
  mutable std::unique_ptr<WeightFile> weights_;
  mutable std::optional<std::unique_ptr<FamilyConfig>> config_;
};

/// The settings by which a checkpoint, which is not verified, is used with the files that it carries
/// (WeightNames::settings_in). Throws ConfigError.
std::vector<std::string> settings_of_checkpoint(const std::filesystem::path& step_folder,
                                                const Families& families);

}  // namespace moh
