#pragma once

#include "train/trainer/task/weight_names.h"

namespace moh {

/// Diffusion transformers as the released code of DiT and MoH-DiT names them (.pt files without a
/// description, of which the moving average is taken: the published models are known by their tensors).
class DitWeightNames final : public WeightNames {
 public:
  std::unique_ptr<FamilyConfig> published_model(const WeightFile& weights) const override;
  /// Sizes by the tensors; the number of heads is that of the published model of such a width and depth.
  std::unique_ptr<FamilyConfig> model_in(const WeightFile& weights,
                                         std::vector<std::string>& untold) const override;
  std::string describe(const FamilyConfig& config) const override;
};

}  // namespace moh
