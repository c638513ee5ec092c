#pragma once

#include <memory>
#include <vector>

#include "models/vision/image_model.h"
#include "models/vision/per_size.h"
#include "models/vision/transnext_config.h"
#include "models/vision/transnext_layers.h"

namespace moh {

/// The inside of a stage in a forward pass of B images on N tokens of width D.
struct TransNextStageOutput {
  std::shared_ptr<const StageGrid> grid;
  std::vector<Tensor> after_blocks;  ///< [B, N, D] each
  Tensor after_norm;                 ///< [B, N, D]
};

/// TransNeXt, dense or Mixture-of-Head (arXiv 2410.11842, section 4.1). Parameters are named as in the
/// released code: "patch_embed1.proj.weight", "block3.14.attn.q.weight", "norm4.weight", "head.weight".
class TransNext : public ImageModel {
 public:
  /// Allocates the parameters, contents undefined: call initialise() or load weights. Throws ValueError for
  /// an invalid config.
  TransNext(const TransNextConfig& config, Placement placement);

  std::string_view family() const override { return "transnext"; }
  /// As the released code: matrices normal with standard deviation 0.02, convolutions with sqrt(2 / fan-out),
  /// biases 0, norms 1, the temperature such that its softplus is 1 / 0.24, local biases with 0.0004.
  void initialise(std::uint64_t seed) override;
  double init_std() const override;
  bool set_progress(double share) override;
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  const TransNextConfig& config() const { return config_; }

  /// Images of any size that leaves a token in the last stage.
  ImageOutput forward(const Variable& images, const ForwardContext& context = {}) const override;
  ImageOutput forward_with_tokens(const Variable& images, ImageTokens& tokens) const override;
  /// The grid and the outputs of each stage, for comparisons with a reference.
  std::vector<TransNextStageOutput> stage_outputs(const Variable& images,
                                                  const ForwardContext& context = {}) const;
  /// All but one-dimensional parameters, biases, and what makes positions and temperatures.
  bool decays(const NamedParameter& parameter) const override;

 private:
  struct Stage {
    std::unique_ptr<OverlapPatchEmbed> patch_embed;
    std::vector<std::unique_ptr<TransNextBlock>> blocks;
    std::unique_ptr<LayerNorm> norm;
    std::unique_ptr<PerSize<std::shared_ptr<const StageGrid>>> grids;
  };
  Stage make_stage(std::int64_t stage, std::int64_t first_block,
                   const std::vector<HeadRoutingOptions>& routing, Placement placement) const;
  StageGrid make_grid(std::int64_t stage, const GridSize& tokens) const;
  /// Adds what the stages show to `stages`, unless that is null.
  ImageOutput run(const Variable& images, const ForwardContext& context,
                  std::vector<TransNextStageOutput>* stages) const;

  TransNextConfig config_;
  std::vector<Stage> stages_;
  Linear head_;
};

}  // namespace moh
