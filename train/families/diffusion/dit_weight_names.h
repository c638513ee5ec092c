#pragma once

#include "train/trainer/task/weight_names.h"

namespace moh {

/// Diffusion transformers as the released code of DiT and MoH-DiT names them (.pt files without a
/// description, of which the moving average is taken: the published models are known by their tensors), and
/// as moh exports them (config.json with `model_type: moh_dit`).
class DitWeightNames final : public WeightNames {
 public:
  std::span<const std::string_view> model_types() const override;
  bool recognises(const ConfigJson& json) const override;
  std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const override;
  /// A config.json and the model's code for PyTorch (write_moh_dit_files).
  void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                   const ModelLocation& source, std::span<const WeightInfo> tensors) const override;
  std::unique_ptr<FamilyConfig> published_model(const WeightFile& weights) const override;
  /// Sizes by the tensors; the number of heads is that of the published model of such a width and depth.
  std::unique_ptr<FamilyConfig> model_in(const WeightFile& weights,
                                         std::vector<std::string>& untold) const override;
  std::string describe(const FamilyConfig& config) const override;
};

}  // namespace moh
