#pragma once

#include "train/trainer/task/weight_names.h"

namespace moh {

/// Classifiers of images: vision transformers as timm names and describes them (config.json with
/// `architecture`), TransNeXt and MoH-ViT as their released code names them (.pth files, without a
/// description: the published models are known by their tensors), both as moh exports them (config.json with
/// `model_type: moh_vit`).
class ImageWeightNames final : public WeightNames {
 public:
  std::span<const std::string_view> model_types() const override;
  bool recognises(const ConfigJson& json) const override;
  std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const override;
  std::unique_ptr<FamilyConfig> published_model(const WeightFile& weights) const override;
  std::unique_ptr<FamilyConfig> model_in(const WeightFile& weights,
                                         std::vector<std::string>& untold) const override;
  /// timm's config.json of a dense vision transformer; of other models a config.json with their code
  /// (write_moh_vit_files).
  void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                   const ModelLocation& source, std::span<const WeightInfo> tensors) const override;
  /// Tables of relative positions and masks of windows, which are computed.
  bool is_redundant(const WeightFile& weights, const WeightInfo& tensor) const override;
  /// Position embeddings of a ViT for another resolution, resized as timm does.
  Tensor resizing(std::string_view parameter, const Shape& from, const Shape& to) const override;
  /// The classifier, with init.new_head.
  bool begins_anew(std::string_view parameter, const FamilyConfig& run) const override;
  std::string describe(const FamilyConfig& config) const override;
};

}  // namespace moh
