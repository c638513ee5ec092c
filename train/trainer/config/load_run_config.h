#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/layers.h"
#include "train/config/read_fields.h"
#include "train/trainer/config/run_config.h"

namespace moh {

/// The parts of the configuration that a command needs besides the description of the model.
enum class ConfigUse {
  kModel,  ///< nothing: the command inspects a model, or measures one on synthetic data
  kData,   ///< data, since the command opens it
};

/// A run's YAML file, its includes, and the overrides "key.path=value" of the command line (combined as in
/// layers.h), on top of the defaults of the family that `task` names and of its preset. Reading opens no
/// other file: if the model is that of init.from, a command that needs it opens that checkpoint and passes
/// its model to finish().
class RunFile {
 public:
  /// Throws ConfigError for a file that cannot be parsed as YAML; errors in its values are collected for
  /// finish().
  RunFile(const std::string& path, const std::vector<std::string>& overrides, FamilyConfigs families);
  /// Reads a text that has not been written to a file yet; messages call it `name`.
  static RunFile of_text(const std::string& name, std::string text, FamilyConfigs families,
                         const std::vector<std::string>& overrides = {});

  /// The run as far as it is known before finish(), for opening init.from.
  const RunConfig& run() const { return run_; }
  /// Whether the model is that of init.from: its fields are not all given, and no preset is named.
  bool leaves_model_open() const;
  /// The keys with the property that neither the text nor a preset sets, with their values: "model.heads 8,
  /// ...".
  std::string left_to_defaults(config::FieldProperty property) const;
  /// The keys of `model` that this run lacks although it starts from weights without a configuration, so that
  /// it has to give them (FieldProperty::kOptionalWithWeights).
  std::vector<std::string> missing_model_keys() const;
  /// Whether one of the sizes is given that missing_model_keys() asks for.
  bool gives_sizes() const;
  /// Whether the file, one that it includes or an override sets the key.
  bool gives(std::string_view key) const { return given_.places.contains(key); }
  /// A line for each renamed key that the file uses; after finish() also for what is surprising about the
  /// heads that are active (train/trainer/config/active_heads.h).
  const std::vector<std::string>& notes() const { return notes_; }

  /// The run, with all rules checked. `checkpoint`: the model of init.from, if it was opened. Throws one
  /// ConfigError with a line per problem:
  ///   configs/llm/tiny.yaml:14:14: model.kv_heads: expected a divisor of model.heads (8), found 7
  RunConfig finish(ConfigUse use, const FamilyConfig* checkpoint = nullptr);

 private:
  explicit RunFile(FamilyConfigs families) : families_(families) {}
  void read(const std::string& path);
  std::vector<std::string> required_model_keys() const;
  RunConfig beginning(const std::string& path) const;
  void read_layers();

  FamilyConfigs families_;
  config::Layers layers_;
  config::Problems problems_;
  config::GivenKeys given_;
  std::vector<std::string> notes_;
  RunConfig run_;
};

/// RunFile(...).finish(use), for a file whose model needs no checkpoint.
RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          FamilyConfigs families, ConfigUse use = ConfigUse::kData);

/// The run with absolute paths, for the configuration that is stored with it and read from other folders.
RunConfig with_absolute_paths(RunConfig run);

/// The resolved configuration as YAML that reads back to the same run (`moh config FILE`, and the config.yaml
/// of a checkpoint).
std::string print_resolved(const RunConfig& run);

/// The reference of all keys in Markdown (`moh config --reference`, docs/config.md).
std::string print_reference(FamilyConfigs families);

}  // namespace moh
