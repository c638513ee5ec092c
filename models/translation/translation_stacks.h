#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/translation/packed_pairs.h"
#include "models/translation/translation_layers.h"

namespace moh {

/// The input of the first layer of encoder or decoder: the tokens' embeddings, times sqrt(D) where
/// scale_embedding, plus their positions; normalised with embedding_norm; dropped in training. Parameters
/// `embed_tokens.weight` [V, D] unless the table is another stack's, with learned positions
/// `embed_positions.weight` [position_offset + max_positions, D], and `layernorm_embedding`.
class TokenEmbedding : public Module {
 public:
  /// With `shared`, [V, D], as the table.
  TokenEmbedding(const TranslationConfig& config, std::int64_t vocab_size, const Variable& shared,
                 Placement placement);

  /// tokens and positions [N] int64 to [1, N, D]. Throws as embedding() does.
  Variable operator()(const Tensor& tokens, const Tensor& positions, const ForwardContext& context) const;
  const Variable& table() const { return table_; }

 private:
  Variable position_rows() const;

  double scale_, dropout_;
  Variable table_;
  Variable positions_;  // [max_positions, D], a constant; or the parameter, from position 0 on
  Tensor places_;       // [max_positions] int64, the parameter's rows; undefined where these are all of it
  std::optional<LayerNorm> norm_;
};

/// The encoder. Parameters of TokenEmbedding, `layers.0` ..., and with NormPlace::kBefore `layer_norm`.
class TranslationEncoder : public Module {
 public:
  TranslationEncoder(const TranslationConfig& config, Placement placement);

  /// The source sentences of `pairs` to [1, S, D]; adds the layers' routing to `routing`.
  Variable forward(const PackedPairs& pairs, const ForwardContext& context,
                   std::vector<LayerRouting>& routing) const;

  const Variable& table() const { return embedding_.table(); }
  const std::vector<std::unique_ptr<EncoderLayer>>& layers() const { return layers_; }

 private:
  RecomputeLevel recompute_;
  TokenEmbedding embedding_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  std::optional<LayerNorm> layer_norm_;
};

/// The decoder, with the projection to logits. Parameters as those of the encoder, and `output_projection`
/// [V, D] where it is no embedding's table.
class TranslationDecoder : public Module {
 public:
  /// `shared` is the source's table with SharedEmbeddings::kAll, else undefined.
  TranslationDecoder(const TranslationConfig& config, const Variable& shared, Placement placement);

  /// The target sentences of `pairs` to [1, T, D], with the encoder's output `memory` [1, S, D].
  Variable forward(const PackedPairs& pairs, const Variable& memory, const ForwardContext& context,
                   std::vector<LayerRouting>& routing) const;
  /// Keys and values of all layers' cross-attention, of a memory [1, S, D].
  std::vector<MemoryKeys> keys_of(const Variable& memory) const;
  /// Tokens [R] of R rows that continue those in `caches`, as DecoderLayer::decode, to [1, R, D].
  Variable decode(const Tensor& tokens, std::vector<LayerCache>& caches,
                  const std::vector<MemoryKeys>& memory, const AttentionOptions& mask) const;

  /// The matrix of the logits, [V, D].
  const Variable& output() const { return output_ ? output_->weight() : embedding_.table(); }
  const std::vector<std::unique_ptr<DecoderLayer>>& layers() const { return layers_; }

 private:
  Variable normed(const Variable& x) const { return layer_norm_ ? (*layer_norm_)(x) : x; }

  RecomputeLevel recompute_;
  TokenEmbedding embedding_;
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::optional<LayerNorm> layer_norm_;
  std::optional<Linear> output_;
};

}  // namespace moh
