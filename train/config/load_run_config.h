#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/layers.h"
#include "train/config/read_fields.h"
#include "train/config/run_config.h"

namespace moh {

/// What must be given besides what describes the model: the business of the command that reads.
enum class ConfigUse {
  kModel,  ///< nothing: the command looks at a model, or measures one on made-up data
  kData,   ///< data, since the command opens it
};

/// A run's YAML file, what it includes, and the overrides "key.path=value" of the command line (layers.h says
/// how they combine), read on top of the defaults of the family that `task` names and of its preset. Reading
/// touches no other file: where init.from leaves the model open, the command that needs it opens that
/// checkpoint and passes its model to finish().
class RunFile {
 public:
  /// Throws ConfigError for a file that cannot be read as YAML at all; what is wrong with its values is kept
  /// for finish().
  RunFile(const std::string& path, const std::vector<std::string>& overrides, FamilyConfigs families);
  /// The same for a text that has not become a file yet; messages call it `name`.
  static RunFile of_text(const std::string& name, std::string text, FamilyConfigs families,
                         const std::vector<std::string>& overrides = {});

  /// What the text says so far, for opening init.from.
  const RunConfig& run() const { return run_; }
  /// Whether the model is that of init.from, unless its fields are all given or a preset is named.
  bool leaves_model_open() const;
  /// Those of `keys` that neither the text nor a preset gives, and their values: "model.heads 8, ...".
  std::string left_to_defaults(std::span<const std::string_view> keys) const;
  /// The keys of `model` that a run has to give which begins from weights that nothing describes, and this
  /// one does not (FamilyConfig::optional_model_keys).
  std::vector<std::string> missing_model_keys() const;
  /// A line for each key that has another name today.
  const std::vector<std::string>& notes() const { return notes_; }

  /// The run, with all rules checked; `checkpoint` is the model that init.from names, where it was opened.
  /// Throws ConfigError with one line per problem, all at once:
  ///   configs/llm/tiny.yaml:14:14: model.kv_heads: expected a divisor of model.heads (8), found 7
  RunConfig finish(ConfigUse use, const FamilyConfig* checkpoint = nullptr);

 private:
  explicit RunFile(FamilyConfigs families) : families_(families) {}
  void read(const std::string& path);
  RunConfig beginning(const std::string& path) const;
  void read_layers();

  FamilyConfigs families_;
  config::Layers layers_;
  config::Problems problems_;
  config::GivenKeys given_;
  std::vector<std::string> notes_;
  RunConfig run_;
};

/// A file whose model needs no checkpoint: RunFile(...).finish(use).
RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          FamilyConfigs families, ConfigUse use = ConfigUse::kData);

/// The run with all its paths absolute: what is kept with a run is read again from other folders.
RunConfig with_absolute_paths(RunConfig run);

/// The whole configuration as YAML that reads back to the same run (`moh config FILE`, and the config.yaml
/// beside a checkpoint).
std::string print_resolved(const RunConfig& run);

/// The reference of all keys in Markdown (`moh config --reference`, docs/config.md).
std::string print_reference(FamilyConfigs families);

}  // namespace moh
