#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"

namespace moh {

/// Where a residual branch f is normalised.
enum class NormPlace {
  kAfter,   ///< norm(x + f(x)), as Vaswani et al. 2017 (arXiv 1706.03762)
  kBefore,  ///< x + f(norm(x)), with a norm after the last layer of encoder and decoder (arXiv 2002.04745)
};

/// How a token's place in its sentence is added to its embedding.
enum class PositionKind {
  kSinusoidal,  ///< fixed sines and cosines, no parameters
  kLearned,     ///< a trained vector of each position
};

/// Frequencies of the sinusoids of width D: sin(p f_i) for i = 0 ... D / 2 - 1, then cos(p f_i).
enum class SinusoidKind {
  kFairseq,  ///< f_i = 10000^(-i / (D / 2 - 1)), as fairseq and tensor2tensor
  kMarian,   ///< f_i = 10000^(-i / (D / 2)), as Marian; the paper's, in another order
};

/// The function between the two maps of a feed-forward network.
enum class Activation { kRelu, kGelu, kSilu };

/// Which of the three matrices [vocabulary, D] are one: embeddings of source and target, output projection.
enum class SharedEmbeddings {
  kAll,      ///< all three, with one vocabulary
  kDecoder,  ///< the target's embedding and the output projection
  kNone,
};

/// An encoder-decoder transformer for translation (Vaswani et al. 2017, arXiv 1706.03762), dense,
/// Mixture-of-Head (arXiv 2410.11842) or Mixture of Attention Heads (MoA, arXiv 2210.05144).
struct TranslationConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t source_vocab_size = 0;  ///< 0: source and target have one vocabulary
  std::int64_t encoder_layers = 6;
  std::int64_t decoder_layers = 6;
  std::int64_t hidden = 512;
  std::int64_t intermediate = 2048;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;          ///< 0: as many as `heads`
  std::int64_t head_dim = 0;          ///< 0: hidden / heads. heads * head_dim may differ from hidden
  std::int64_t max_positions = 1024;  ///< tokens of a sentence, on either side
  NormPlace norm = NormPlace::kAfter;
  PositionKind positions = PositionKind::kSinusoidal;
  SinusoidKind sinusoids = SinusoidKind::kFairseq;
  std::int64_t position_offset = 0;  ///< position of a sentence's first token; 2 in fairseq's checkpoints
  Activation activation = Activation::kRelu;
  bool scale_embedding = true;  ///< embeddings times sqrt(hidden)
  SharedEmbeddings shared_embeddings = SharedEmbeddings::kAll;
  bool embedding_norm = false;  ///< a norm after embeddings and positions are added, as in mBART
  bool attention_bias = true;   ///< the four projections of attention add a bias
  bool output_bias = false;     ///< a constant is added to the logits, as final_logits_bias of Marian
  double dropout = 0.1;         ///< of embeddings and of residual branches
  double attention_dropout = 0;
  double activation_dropout = 0;  ///< after the activation
  double norm_eps = 1e-5;
  AttentionGate attention_gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  /// Routing of the attention layers, by number: self-attention of encoder layer i is i; of decoder layer i
  /// self-attention is encoder_layers + 2 i, cross-attention the next one.
  MohConfig moh;

  std::int64_t attention_layers() const { return encoder_layers + 2 * decoder_layers; }

  bool operator==(const TranslationConfig&) const = default;
};

/// The config with the values that source_vocab_size, kv_heads and head_dim = 0 stand for.
TranslationConfig spelt_out(TranslationConfig config);

/// Reports values that are out of range or inconsistent.
void check(const TranslationConfig& config, ConfigFaults& faults);

/// Throws ValueError for the first fault that check() reports.
void require_valid(const TranslationConfig& config);

/// Routing of attention layer number `layer`; routing of all of them.
HeadRoutingOptions routing_of(const TranslationConfig& config, std::int64_t layer);
std::vector<HeadRoutingOptions> routing_of(const TranslationConfig& config);

}  // namespace moh
