#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "train/base/formats/weight_file.h"
#include "train/trainer/config/family_config.h"
#include "train/weights/parameter_names.h"

namespace moh {

class ConfigJson;
struct ModelLocation;

/// How files of other programs describe the models of a family and name their tensors. The base class is for
/// families that only moh has: it recognises no config.json, and cannot write one.
class WeightNames : public ParameterNames {
 public:
  /// Values of `model_type` of the config.json files that recognises() accepts, for messages.
  virtual std::span<const std::string_view> model_types() const { return {}; }
  /// Whether a config.json describes a model of this family, or one for which this family has an error
  /// message.
  virtual bool recognises(const ConfigJson&) const { return false; }
  /// Reads it; only `model` of the result is meaningful. Throws CheckpointError for a file that is damaged,
  /// ConfigError for a model that moh does not support.
  virtual std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const;
  /// The configuration of weights that come without one, if they have exactly the tensors of a published
  /// model of the family; else null.
  virtual std::unique_ptr<FamilyConfig> published_model(const WeightFile&) const { return nullptr; }
  /// The configuration of weights that come without one and are no published model's, as far as names and
  /// shapes tell it; `untold` gets the keys of `model` that they leave open. Null for weights that are not
  /// this family's.
  virtual std::unique_ptr<FamilyConfig> model_in(const WeightFile&,
                                                 std::vector<std::string>& /*untold*/) const {
    return nullptr;
  }
  /// The configuration of weights that have none: that of the run, with what the weights determine.
  virtual std::unique_ptr<FamilyConfig> config_of(const WeightFile&, const FamilyConfig& run) const {
    return run.clone();
  }
  /// Writes the files that other programs need to open the model, besides the tensors, with the companions of
  /// `source`, the model's origin (copy_companions). Throws StorageError, CheckpointError for types that the
  /// format lacks, ConfigError for a model that it cannot express.
  virtual void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                           const ModelLocation& source, std::span<const WeightInfo> tensors) const;
  /// exported_name(parameter, config): the name that the files of write_files() give a parameter.
  virtual std::string exported_name(std::string_view parameter, const FamilyConfig&) const {
    return std::string(parameter);
  }
  /// adapter_name(parameter, config): the name of a parameter in a file of adapters that PEFT reads; nothing
  /// for those of the base model.
  virtual std::optional<std::string> adapter_name(std::string_view, const FamilyConfig&) const {
    return std::nullopt;
  }
  /// Writes the files that PEFT needs besides such a file, on top of the model at the path `base` (empty: not
  /// known). Throws ConfigError for a model without adapters, or that it cannot express; else as
  /// write_files().
  virtual void write_adapter_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                   std::string_view base, const ModelLocation& source,
                                   std::span<const WeightInfo> tensors) const;
  /// settings_in(folder): settings by which a checkpoint in `folder` is used with the files that it keeps,
  /// not with those that its run was given: "data.tokenizer=PATH".
  virtual std::vector<std::string> settings_in(const std::filesystem::path&) const { return {}; }
  /// (name, contents) of what a checkpoint of the model of `source` carries (is_carried_file), for its use
  /// and for a later export: at least its companions of such names.
  virtual std::vector<std::pair<std::string, std::string>> carried_files(const ModelLocation& source) const;
  /// rows_may_grow(parameter): whether it has a row per token or class, to which a run may add rows
  /// (init.new_rows).
  virtual bool rows_may_grow(std::string_view) const { return false; }
  /// resizing(parameter, from, to): how a tensor of shape `from`, [1, S, D], becomes the parameter of shape
  /// `to`, [1, R, D], when a run starts from it: the matrix [R, S], float32, by which its rows are multiplied
  /// (position embeddings of another resolution); undefined: not at all.
  virtual Tensor resizing(std::string_view, const Shape&, const Shape&) const { return {}; }
  /// begins_anew(parameter, run): whether a run keeps its initial values, whatever it starts from.
  virtual bool begins_anew(std::string_view, const FamilyConfig&) const { return false; }
  /// A one-line description of the model, "32 layers, 32 heads of 128 (8 KV), ...".
  virtual std::string describe(const FamilyConfig& config) const;
};

}  // namespace moh
