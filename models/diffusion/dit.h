#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "models/diffusion/dit_config.h"
#include "models/layers/linear.h"
#include "models/layers/moh_attention.h"
#include "models/layers/residual_stream.h"
#include "models/model.h"

namespace moh {

/// The input of a DiT.
struct DitInput {
  Variable images;  ///< [B, C, H, W], noisy, in the model's dtype
  /// How noisy each is: [B] int64, steps from 0 to kDiffusionSteps - 1; or [B, kTimeWidth] float32, the
  /// time_embedding() of a time of any value, as models of a flow take it, from 0 to 1.
  Tensor steps;
  Tensor labels;  ///< [B] int64, classes; DitConfig::no_class() for none
};

/// The result of a forward pass.
struct DitOutput {
  /// [B, C or 2 C, H, W]: the noise; with learn_variance the variance's interpolation after it.
  Variable prediction;
  std::vector<LayerRouting> routing;  ///< one per MoH layer, in order; empty for a dense model
};

/// Time steps of the process that models are trained for.
constexpr std::int64_t kDiffusionSteps = 1000;
/// Width of the embedding of a time.
constexpr std::int64_t kTimeWidth = 256;

/// adaLN-zero: with (shift, scale, gate) of attention, then of the MLP, from Linear(condition),
///   x += gate * attn(norm(x) (1 + scale) + shift);  x += gate * mlp(norm(x) (1 + scale) + shift),
/// norm without parameters, the MLP with tanh GELU. Parameters `attn`, `mlp.fc1`, `mlp.fc2`,
/// `adaLN_modulation.1`.
class DitBlock : public Module {
 public:
  DitBlock(const DitConfig& config, const HeadRoutingOptions& routing, std::int64_t layer,
           Placement placement);

  /// Of tokens [B, N, D]; condition [B, D] after its SiLU.
  StreamOutput forward(ResidualStream stream, const Variable& condition, const ForwardContext& context) const;
  const HeadRouter* router() const { return attn_.router(); }
  HeadRouter* router() { return attn_.router(); }

 private:
  MohAttention attn_;
  RecomputeLevel recompute_;
  Linear fc1_, fc2_, modulation_;
};

/// A diffusion transformer. Parameters are named as in the released checkpoints: "x_embedder.proj.weight",
/// "t_embedder.mlp.0.weight", "y_embedder.embedding_table.weight", "blocks.3.attn.qkv.weight",
/// "blocks.3.adaLN_modulation.1.weight", "final_layer.linear.weight", and "pos_embed", which is not trained.
class Dit : public Model {
 public:
  /// Allocates the parameters, contents undefined: call initialise() or load weights. Throws ValueError for
  /// an invalid config.
  Dit(const DitConfig& config, Placement placement);

  std::string_view family() const override { return "dit"; }
  /// As the released code: matrices and the patch embedding Xavier uniform, the label table and the matrices
  /// of the time steps normal with standard deviation 0.02; modulations and the last layer 0, as are biases.
  void initialise(std::uint64_t seed) override;
  /// The standard deviation of a Xavier uniform router of the narrowest layer.
  double init_std() const override;
  bool decays(const NamedParameter& parameter) const override;
  bool set_progress(double share) override;
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  const DitConfig& config() const { return config_; }

  /// Throws ShapeError, and ValueError for a step or label out of range.
  DitOutput forward(const DitInput& input, const ForwardContext& context = {}) const;
  /// The outputs of the blocks, [B, N, D] each, for comparisons with a reference.
  std::vector<Tensor> tokens_after_blocks(const DitInput& input) const;

 private:
  Variable tokens_of(const Variable& images) const;
  Variable times_of(const DitInput& input) const;
  Variable condition_of(const DitInput& input) const;
  StreamOutput run_block(const DitBlock& block, ResidualStream stream, const Variable& condition,
                         const ForwardContext& context) const;

  DitConfig config_;
  Variable patch_weight_, patch_bias_, pos_embed_, label_table_;
  Linear time_in_, time_out_;
  std::vector<std::unique_ptr<DitBlock>> blocks_;
  Linear final_modulation_, final_;
  Variable times_;  ///< [kDiffusionSteps, 256], a constant
};

}  // namespace moh
