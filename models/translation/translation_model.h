#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "models/translation/decoding.h"
#include "models/translation/packed_pairs.h"
#include "models/translation/translation_stacks.h"

namespace moh {

/// A translation model: encoder and decoder, and the projection to logits of the target's vocabulary.
/// Parameters have the names of fairseq's transformer: "encoder.embed_tokens.weight",
/// "encoder.layers.0.self_attn.q_proj.weight", "decoder.layers.0.encoder_attn.k_proj.weight",
/// "decoder.output_projection.weight" ..., and Marian's "final_logits_bias" [1, V]; routers are named as
/// those of Llama, inside their attention module
/// ("encoder.layers.0.self_attn.wg.weight"). Of matrices that SharedEmbeddings makes one, the first of
/// encoder.embed_tokens, decoder.embed_tokens and decoder.output_projection has the name.
class TranslationModel final : public Model {
 public:
  using Memory = TranslationMemory;

  /// Allocates the parameters, contents undefined: call initialise() or load weights. Throws ValueError for
  /// an invalid config.
  TranslationModel(const TranslationConfig& config, Placement placement);

  std::string_view family() const override { return "translation"; }
  /// As fairseq: matrices Xavier uniform, those of queries, keys and values divided by sqrt(2); embeddings
  /// and an output projection of its own normal with standard deviation 1 / sqrt(hidden); norm weights 1,
  /// biases 0.
  void initialise(std::uint64_t seed) override;
  /// The standard deviation of a Xavier uniform router.
  double init_std() const override;
  /// Matrices, but not final_logits_bias, which has two axes.
  bool decays(const NamedParameter& parameter) const override;
  bool set_progress(double share) override;
  std::vector<HeadRoutingOptions> routing() const override;
  std::vector<const HeadRouter*> routers() const override;

  /// The config with defaults resolved, as spelt_out() returns it.
  const TranslationConfig& config() const { return config_; }

  /// The result of a forward pass.
  struct Output {
    Variable logits;                    ///< [1, T, V], of the token that follows each of the target
    std::vector<LayerRouting> routing;  ///< one per MoH layer, by number; empty for a dense model
  };
  /// pairs on the model's device. The masks are those of `pairs`; context.document_starts is not read.
  /// Throws ShapeError, ValueError for a sentence longer than max_positions.
  Output forward(const PackedPairs& pairs, const ForwardContext& context = {}) const;

  /// Decoding, without gradients. The memory of source sentences, `source` [S] int64 of these lengths, one
  /// after the other. Throws as forward() does.
  Memory encode(const Tensor& source, std::span<const std::int64_t> lengths) const;
  /// Hypotheses without a token so far, of up to `capacity` tokens each. Throws ValueError as Decoding does,
  /// and for a capacity beyond max_positions.
  Decoding begin(Memory memory, std::vector<std::int64_t> sentence_of_row, std::int64_t capacity) const;
  /// Appends token i of `tokens` [R] int64 to row i and returns logits [R, V] in float32 (float64 for
  /// float64) of the token after it. They equal those of forward() up to rounding. Throws ShapeError.
  Tensor step(const Tensor& tokens, Decoding& decoding) const;

 private:
  Variable logits_of(const Variable& hidden) const;

  TranslationConfig config_;
  TranslationEncoder encoder_;
  TranslationDecoder decoder_;
  Variable output_bias_;  // undefined without one
};

}  // namespace moh
