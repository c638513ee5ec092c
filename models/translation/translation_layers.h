#pragma once

#include <cstdint>

#include "models/layers/layer_norm.h"
#include "models/translation/translation_attention.h"

namespace moh {

/// The norm of a residual branch f, before or after it: y = x + dropout(f(norm(x))), or
/// y = norm(x + dropout(f(x))). Parameters of LayerNorm.
class ResidualNorm : public LayerNorm {
 public:
  ResidualNorm(const TranslationConfig& config, Placement placement)
      : LayerNorm(config.hidden, config.norm_eps, placement),
        place_(config.norm),
        dropout_(config.dropout),
        recompute_(config.recompute) {}

  /// The input of f.
  Variable input(const Variable& x) const { return place_ == NormPlace::kBefore ? (*this)(x) : x; }
  /// f's input, which only backward passes will read from here on, is recomputed as the configuration says.
  void recompute_input(const Variable& input, const Variable& x) const {
    if (place_ == NormPlace::kBefore) recompute(recompute_, input, x);
  }
  /// y, from x and f's result.
  Variable output(const Variable& x, const Variable& branch, const ForwardContext& context) const;

 private:
  NormPlace place_;
  double dropout_;
  RecomputeLevel recompute_;
};

/// fc2(dropout(activation(fc1(x)))), position by position, in a residual branch with its norm. Parameters
/// `fc1`, `fc2`, `final_layer_norm`.
class FeedForward : public Module {
 public:
  FeedForward(const TranslationConfig& config, Placement placement);

  /// x [..., D], the branch included.
  Variable operator()(const Variable& x, const ForwardContext& context = {}) const;

 private:
  Activation activation_;
  double dropout_;
  RecomputeLevel recompute_;
  Linear fc1_, fc2_;
  ResidualNorm final_layer_norm_;
};

/// A layer of the encoder: self-attention and feed-forward network, each in a residual branch. Parameters
/// `self_attn`, `self_attn_layer_norm`, and those of FeedForward.
class EncoderLayer : public Module {
 public:
  EncoderLayer(const TranslationConfig& config, std::int64_t layer, Placement placement);

  /// x [1, S, D] to [1, S, D].
  LayerOutput forward(const Variable& x, const AttentionOptions& mask, const ForwardContext& context) const;
  const TranslationAttention& self_attn() const { return self_attn_; }
  TranslationAttention& self_attn() { return self_attn_; }

 private:
  TranslationAttention self_attn_;
  ResidualNorm self_attn_layer_norm_;
  FeedForward feed_forward_;
};

/// A layer of the decoder: causal self-attention, cross-attention to the encoder's output, and feed-forward
/// network, each in a residual branch. It has two parts, of one attention each, which are recomputed by
/// themselves. Parameters `self_attn`, `self_attn_layer_norm`, `encoder_attn`, `encoder_attn_layer_norm`, and
/// those of FeedForward. `layer` is the number of the self-attention; cross-attention has the next one.
class DecoderLayer : public Module {
 public:
  DecoderLayer(const TranslationConfig& config, std::int64_t layer, Placement placement);

  /// The part with self-attention: x [1, T, D] to [1, T, D].
  LayerOutput attend_self(const Variable& x, const AttentionOptions& mask,
                          const ForwardContext& context) const;
  /// The other part, with the encoder's output `memory` [1, S, D].
  LayerOutput attend_memory(const Variable& x, const Variable& memory, const AttentionOptions& mask,
                            const ForwardContext& context) const;
  /// Both parts in decoding, for a token of each of R rows: x [1, R, D] to [1, R, D].
  Variable decode(const Variable& x, LayerCache& cache, const MemoryKeys& memory,
                  const AttentionOptions& mask) const;

  const TranslationAttention& self_attn() const { return self_attn_; }
  TranslationAttention& self_attn() { return self_attn_; }
  const TranslationAttention& encoder_attn() const { return encoder_attn_; }
  TranslationAttention& encoder_attn() { return encoder_attn_; }

 private:
  TranslationAttention self_attn_, encoder_attn_;
  ResidualNorm self_attn_layer_norm_, encoder_attn_layer_norm_;
  FeedForward feed_forward_;
};

}  // namespace moh
