#pragma once

#include <memory>
#include <vector>

#include "models/layers/conv2d.h"
#include "models/layers/layer_norm.h"
#include "models/layers/linear.h"
#include "models/layers/moh_attention.h"
#include "models/layers/residual_stream.h"
#include "models/vision/image_model.h"
#include "models/vision/per_size.h"
#include "models/vision/vit_config.h"

namespace moh {

/// x += drop_path(attn(norm1(x))); x += drop_path(mlp(norm2(x))), the MLP with exact GELU. Parameters
/// `norm1`, `attn`, `norm2`, `mlp.fc1`, `mlp.fc2`.
class VitBlock : public Module {
 public:
  VitBlock(const VitConfig& config, const HeadRoutingOptions& routing, std::int64_t layer,
           Placement placement);

  /// Of tokens [B, N, D].
  StreamOutput forward(ResidualStream stream, const ForwardContext& context) const;
  const HeadRouter* router() const { return attn_.router(); }
  HeadRouter* router() { return attn_.router(); }

 private:
  struct Mlp : Module {
    Mlp(std::int64_t width, std::int64_t hidden, Placement placement);
    Linear fc1, fc2;
  };

  double drop_path_;
  RecomputeLevel recompute_;
  LayerNorm norm1_;
  MohAttention attn_;
  LayerNorm norm2_;
  Mlp mlp_;
};

/// A vision transformer, dense or Mixture-of-Head. Parameters are named as in timm: "cls_token", "pos_embed",
/// "patch_embed.proj.weight", "blocks.3.attn.qkv.weight", "norm.weight" ("fc_norm.weight" with mean pooling),
/// "head.weight".
class Vit : public ImageModel {
 public:
  /// Allocates the parameters, contents undefined: call initialise() or load weights. Throws ValueError for
  /// an invalid config.
  Vit(const VitConfig& config, Placement placement);

  std::string_view family() const override { return "vit"; }
  /// As DeiT: matrices, position embeddings and the class token normal with standard deviation 0.02, the
  /// convolution uniform up to 1 / sqrt(fan-in), biases 0, norms 1.
  void initialise(std::uint64_t seed) override;
  double init_std() const override;
  bool set_progress(double share) override;
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  const VitConfig& config() const { return config_; }

  /// Images whose sides are multiples of the patch. For other sizes than config().image_size the position
  /// embeddings are interpolated (bicubic_weights).
  ImageOutput forward(const Variable& images, const ForwardContext& context = {}) const override;
  ImageOutput forward_with_tokens(const Variable& images, ImageTokens& tokens) const override;
  /// All but one-dimensional parameters, position embeddings and the class token.
  bool decays(const NamedParameter& parameter) const override;

 private:
  struct PatchEmbed : Module {
    PatchEmbed(const VitConfig& config, Placement placement);
    Conv2d proj;
  };

  Variable positions_for(const GridSize& grid) const;
  Variable tokens_of(const Variable& images) const;
  /// Gives `tokens` what it shows, unless that is null.
  ImageOutput run(const Variable& images, const ForwardContext& context, ImageTokens* tokens) const;

  VitConfig config_;
  Variable cls_token_, pos_embed_;  // no class token with mean pooling
  PatchEmbed patch_embed_;
  mutable PerSize<Tensor> position_weights_;
  std::vector<std::unique_ptr<VitBlock>> blocks_;
  LayerNorm norm_;
  Linear head_;
};

}  // namespace moh
