#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/llm/llama_layers.h"
#include "models/llm/rotary_embedding.h"
#include "models/model.h"

namespace moh {

/// The result of a forward pass of Llama.
struct LlamaOutput {
  Variable logits;                    ///< [B, T, V]
  std::vector<LayerRouting> routing;  ///< one per MoH layer, in order; empty for a dense model
};

/// A decoder of the LLaMA family, dense or Mixture-of-Head. Parameter names are those of Hugging Face's
/// LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"); routers add
/// "model.layers.0.self_attn.wg.weight" (and wg_0, wg_1). With tied embeddings there is no "lm_head.weight".
class Llama : public Model {
 public:
  /// Allocates the parameters, contents undefined: call initialise() or load weights. With config.lora those
  /// that it does not train require no gradient. Throws ValueError for an invalid config.
  Llama(const LlamaConfig& config, Placement placement);

  std::string_view family() const override { return "llama"; }
  /// Matrices are normal with standard deviation config.init_std (o_proj and down_proj: divided by sqrt(2
  /// layers), as in GPT-2), norm weights 1, biases 0; adapters as initialise_adapter() has them.
  void initialise(std::uint64_t seed) override;
  double init_std() const override { return config_.init_std; }
  bool set_progress(double share) override;
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  /// The config with defaults resolved, as spelt_out() returns it.
  const LlamaConfig& config() const { return config_; }

  /// tokens [B, T] int64 or int32, ids below V, T at most max_positions. context.head_scales must live until
  /// the backward pass. Throws ShapeError, ValueError.
  LlamaOutput forward(const Tensor& tokens, const ForwardContext& context = {}) const;

  /// An empty cache for B sequences of up to `capacity` tokens; a layer with a sliding window needs memory
  /// for little more than the window. Throws ValueError above max_positions.
  KvCache make_cache(std::int64_t batch, std::int64_t capacity) const;
  /// Returns logits [B, V] in float32 for the token that follows the last of tokens [B, T]. The tokens
  /// continue those in the cache, and are appended to it. The result equals that of forward() on all tokens,
  /// up to rounding.
  Tensor decode(const Tensor& tokens, KvCache& cache) const;
  /// decode(), but returns the last layer's output [B * T, D] for all of the tokens, of which logits_at()
  /// makes logits where they are wanted.
  Tensor decode_hidden(const Tensor& tokens, KvCache& cache) const;
  /// Logits [n, V] in float32 for the tokens that follow the rows [n], int64, of decode_hidden().
  Tensor logits_at(const Tensor& hidden, const Tensor& rows) const;
  /// decode_hidden() of pieces of B texts that have a cache of batch 1 each, of any lengths: tokens [N],
  /// first counts[0] of text 0, then counts[1] of text 1, and so on, one of each or more, to [N, D]. All
  /// texts share the matrix multiplications. On a CPU each row has the bits that decode_hidden() of its text
  /// alone returns; else it equals it up to rounding. Throws ShapeError.
  Tensor decode_pieces(const Tensor& tokens, std::span<const std::int64_t> counts,
                       std::span<KvCache* const> caches) const;
  /// decode() of one token of each text, in the same way: tokens [B] to logits [B, V].
  Tensor decode_each(const Tensor& tokens, std::span<KvCache* const> caches) const;
  /// Tokens of which the keys and values are a function of a text's beginning, however long the text is: all
  /// that fit, but with RopeScalingKind::kDynamic those up to which nothing is scaled. On a CPU their bits
  /// are the same for every division into passes of kManyDecodeQueries tokens or more
  /// (ops/attention/decode.h); else they are equal up to rounding.
  std::int64_t steady_positions() const;

 private:
  Variable logits_of(const ResidualStream& hidden) const;
  bool counts_in_heads() const;
  RopeTable rows_after(std::int64_t before, std::int64_t count) const;
  RopeTable next_rows(std::span<const std::int64_t> counts, std::span<KvCache* const> caches) const;

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
  RotaryEmbedding rope_;
};

}  // namespace moh
