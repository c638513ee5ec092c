#pragma once

#include <memory>
#include <vector>

#include "models/llm/llama_layers.h"
#include "models/model.h"

namespace moh {

/// What a forward pass of a decoder returns.
struct LlamaOutput {
  Variable logits;                    ///< [B, T, V]
  std::vector<LayerRouting> routing;  ///< of the MoH layers, in order; empty for a dense model
};

/// A decoder of the LLaMA family, dense or Mixture-of-Head. Parameter names are those of Hugging Face's
/// LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"); routers add
/// "model.layers.0.self_attn.wg.weight" (and wg_0, wg_1). With tied embeddings there is no "lm_head.weight".
class Llama : public Model {
 public:
  /// Parameters of `placement`, contents undefined: initialise() or load. Throws ValueError for a bad config.
  Llama(const LlamaConfig& config, Placement placement);

  std::string_view family() const override { return "llama"; }
  /// Matrices get normal numbers of config.init_std (o_proj and down_proj: divided by sqrt(2 layers), as in
  /// GPT-2), norm weights 1.
  void initialise(std::uint64_t seed) override;
  double init_std() const override { return config_.init_std; }
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  /// Spelt out: no 0 stands for another number.
  const LlamaConfig& config() const { return config_; }

  /// tokens [B, T] int64 or int32, ids below V, T at most max_positions. context.head_scales live until the
  /// backward pass. Throws ShapeError, ValueError.
  LlamaOutput forward(const Tensor& tokens, const ForwardContext& context = {}) const;

  /// An empty cache for B sequences of up to `capacity` tokens. Throws ValueError above max_positions.
  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;
  /// Logits [B, V] in float32 of the token after the last, for tokens [B, T] that follow those in the cache,
  /// which they join. The result is that of forward() on all tokens at once, up to rounding.
  Tensor decode(const Tensor& tokens, KvCache& cache) const;

 private:
  LayerOutput run_layer(const LlamaLayer& layer, const Variable& x, const ForwardContext& context) const;
  Variable logits_of(const Variable& hidden) const;

  struct Body : Module {
    Body(const LlamaConfig& config, Placement placement);
    struct Embedding : Module {
      Embedding(const LlamaConfig& config, Placement placement);
      Variable weight;
    } embed_tokens;
    std::vector<std::unique_ptr<LlamaLayer>> layers;
    RmsNorm norm;
  };

  LlamaConfig config_;
  Body model_;
  std::unique_ptr<Linear> lm_head_;  // none with tied embeddings
  RopeTable rope_;
};

}  // namespace moh
