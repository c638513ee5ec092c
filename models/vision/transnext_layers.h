#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/layers/conv2d.h"
#include "models/layers/layer_norm.h"
#include "models/layers/linear.h"
#include "models/layers/residual_stream.h"
#include "models/vision/transnext_attention.h"

namespace moh {

/// Overlapping patch embedding: norm(proj(image)), a convolution of a kernel wider than its stride.
class OverlapPatchEmbed : public Module {
 public:
  struct Sizes {
    std::int64_t in, out, kernel, stride;
  };
  OverlapPatchEmbed(const Sizes& sizes, Placement placement);

  /// x [B, H, W, in] to [B, h, w, out].
  Variable operator()(const Variable& x) const { return norm_(proj_(x)); }

 private:
  Conv2d proj_;
  LayerNorm norm_;
};

/// The feed-forward network of TransNeXt: fc2(conv_glu(fc1(x))), x [B, N, D] to [B, N, D]. Parameters `fc1`
/// [2 F, D], `dwconv.dwconv` [F, 1, 3, 3], `fc2` [D, F].
class ConvGlu : public Module {
 public:
  ConvGlu(std::int64_t width, std::int64_t hidden, RecomputeLevel recompute, Placement placement);
  Variable operator()(const Variable& x, const GridSize& grid) const;

 private:
  struct Depthwise : Module {
    Depthwise(std::int64_t hidden, Placement placement);
    Conv2d conv;
  };
  RecomputeLevel recompute_;
  Linear fc1_, fc2_;
  Depthwise dwconv_;
};

/// A mixture of ConvGlu (Jin et al. 2024, arXiv 2410.11842, discussion): each token takes the expert with the
/// largest logit, times its probability, p_e conv_glu_e(x) with p = softmax(gate(x)). All experts see the
/// whole image, as their convolutions read neighbours that have taken another. Parameters `gate` [experts,
/// D], `experts.0` ...
class ExpertGlu : public Module {
 public:
  struct Output {
    Variable y;        ///< [B, N, D]
    Variable balance;  ///< load-balance loss, as that of heads
  };
  ExpertGlu(std::int64_t experts, std::int64_t width, std::int64_t hidden, RecomputeLevel recompute,
            Placement placement);
  Output operator()(const Variable& x, const GridSize& grid) const;

 private:
  Linear gate_;
  std::vector<std::unique_ptr<ConvGlu>> experts_;
};

/// x += drop_path(attn(norm1(x))); x += drop_path(mlp(norm2(x))).
class TransNextBlock : public Module {
 public:
  struct FeedForward {
    std::int64_t hidden = 0, experts = 1;
  };
  TransNextBlock(const TransNextAttentionOptions& attention, const FeedForward& mlp, double drop_path,
                 Placement placement);

  StreamOutput forward(ResidualStream stream, const StageGrid& grid, const ForwardContext& context) const;
  const HeadRouter* router() const { return attn_.router(); }
  HeadRouter* router() { return attn_.router(); }

 private:
  double drop_path_;
  RecomputeLevel recompute_;
  LayerNorm norm1_;
  TransNextAttention attn_;
  LayerNorm norm2_;
  std::unique_ptr<ConvGlu> mlp_;  // one of the two
  std::unique_ptr<ExpertGlu> experts_;
};

}  // namespace moh
