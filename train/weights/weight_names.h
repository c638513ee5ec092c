#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "train/config/family_config.h"
#include "train/formats/weight_file.h"

namespace moh {

class ConfigJson;
struct ModelLocation;

/// How the models of one family are described and named in files of others. As it is, for a family whose
/// models only moh knows: no config.json is theirs, and none can be written.
class WeightNames {
 public:
  virtual ~WeightNames() = default;

  /// Values of `model_type` in the config.json files that it recognises, for messages.
  virtual std::span<const std::string_view> model_types() const { return {}; }
  /// Whether a config.json describes a model of this family, or one that only this family could know.
  virtual bool recognises(const ConfigJson&) const { return false; }
  /// Reads it; of the result `model` alone has a meaning. Throws CheckpointError for a file that is damaged,
  /// ConfigError for a model that moh cannot compute.
  virtual std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const;
  /// What is known of weights that have no configuration beside them: what the run says, and the weights
  /// show.
  virtual std::unique_ptr<FamilyConfig> config_of(const WeightFile&, const FamilyConfig& run) const {
    return run.clone();
  }
  /// Writes what others need to open the model, besides the tensors: what lies beside `source`, where it came
  /// from, goes along (copy_companions). Throws StorageError, CheckpointError for types that the format
  /// does not have, ConfigError for a model that it has no form for.
  virtual void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                           const ModelLocation& source, std::span<const WeightInfo> tensors) const;
  /// Writes into `folder`, the kCompanionFolder of a checkpoint, what an export of it will need of `source`: the
  /// companions at least.
  virtual void keep_companions(const ModelLocation& source, const std::filesystem::path& folder) const;
  /// is_redundant(weights, tensor): whether a tensor without a parameter says nothing that the model does not
  /// know (a table that moh computes, an output matrix that equals the tied embedding bit for bit). Throws
  /// CheckpointError.
  virtual bool is_redundant(const WeightFile&, const WeightInfo&) const { return false; }
  /// rows_may_grow(parameter): whether it has a row per token or class, of which a run may add some
  /// (init.new_rows).
  virtual bool rows_may_grow(std::string_view) const { return false; }
  /// The model in a line, "32 layers, 32 heads of 128 (8 KV), ...".
  virtual std::string describe(const FamilyConfig& config) const;
};

}  // namespace moh
