#include "train/weights/own_weight_names.h"

#include "core/error.h"

namespace moh {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& where, std::string_view found) {
  throw ConfigError(error_message(where.string(), "format hf", "a model that Hugging Face's libraries know",
                                  found, "convert to safetensors or to a checkpoint of moh"));
}

class OwnWeightNames final : public WeightNames {
 public:
  std::span<const std::string_view> model_types() const override { return {}; }
  bool recognises(const ConfigJson&) const override { return false; }
  std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const override {
    refuse(config_json, "another");
  }
  void write_files(const std::filesystem::path& folder, const FamilyConfig& config, const ModelLocation&,
                   std::span<const TensorToWrite>) const override {
    refuse(folder, "a model of task: " + std::string(config.task()));
  }
  bool is_redundant(const WeightFile&, const WeightInfo&) const override { return false; }
  bool rows_may_grow(std::string_view) const override { return false; }
  std::string describe(const FamilyConfig& config) const override { return std::string(config.task()); }
};

}  // namespace

const WeightNames& own_weight_names() {
  static const OwnWeightNames names;
  return names;
}

}  // namespace moh
