#include "models/translation/translation_layers.h"

#include <utility>

#include "autograd/recompute.h"
#include "models/layers/dropped.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/activation/silu.h"
#include "ops/elementwise/add.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

Variable activated(const Variable& x, Activation activation) {
  if (activation == Activation::kRelu) return relu(x);
  return activation == Activation::kGelu ? gelu(x, GeluForm::kExact) : silu(x);
}

}  // namespace

Variable ResidualNorm::output(const Variable& x, const Variable& branch,
                              const ForwardContext& context) const {
  const Variable added = dropped(branch, dropout_, context);
  return place_ == NormPlace::kAfter ? after_adding(x, {added}).normed : add(x, added);
}

FeedForward::FeedForward(const TranslationConfig& c, Placement placement)
    : activation_(c.activation),
      dropout_(c.activation_dropout),
      recompute_(c.recompute),
      fc1_(c.hidden, c.intermediate, true, placement),
      fc2_(c.intermediate, c.hidden, true, placement),
      final_layer_norm_(c, placement) {
  add_child("fc1", fc1_);
  add_child("fc2", fc2_);
  add_child("final_layer_norm", final_layer_norm_);
}

Variable FeedForward::operator()(const Variable& x, const ForwardContext& context) const {
  const Variable input = final_layer_norm_.input(x), first = fc1_(input),
                 hidden = activated(first, activation_);
  const Variable branch = fc2_(dropped(hidden, dropout_, context));
  final_layer_norm_.recompute_input(input, x);
  if (recomputes_mlp(recompute_))
    recompute_when_read(first, [this, input = input.detach()] { return fc1_(input); });
  const bool drops = context.training && dropout_ > 0;  // then the backward pass reads what is left of it
  if (recomputes_norms(recompute_) && !drops) {
    recompute_when_read(hidden, [this, first = first.detach()] { return activated(first, activation_); });
  }
  return final_layer_norm_.output(x, branch, context);
}

EncoderLayer::EncoderLayer(const TranslationConfig& c, std::int64_t layer, Placement placement)
    : self_attn_(c, layer, placement), self_attn_layer_norm_(c, placement), feed_forward_(c, placement) {
  add_child("self_attn", self_attn_);
  add_child("self_attn_layer_norm", self_attn_layer_norm_);
  add_children_of(feed_forward_);
}

LayerOutput EncoderLayer::forward(const Variable& x, const AttentionOptions& mask,
                                  const ForwardContext& context) const {
  const Variable input = self_attn_layer_norm_.input(x);
  LayerOutput attention = self_attn_.forward(input, {}, mask, context);
  self_attn_layer_norm_.recompute_input(input, x);
  const Variable h = self_attn_layer_norm_.output(x, attention.y, context);
  return {feed_forward_(h, context), std::move(attention.routing)};
}

DecoderLayer::DecoderLayer(const TranslationConfig& c, std::int64_t layer, Placement placement)
    : self_attn_(c, layer, placement),
      encoder_attn_(c, layer + 1, placement),
      self_attn_layer_norm_(c, placement),
      encoder_attn_layer_norm_(c, placement),
      feed_forward_(c, placement) {
  add_child("self_attn", self_attn_);
  add_child("self_attn_layer_norm", self_attn_layer_norm_);
  add_child("encoder_attn", encoder_attn_);
  add_child("encoder_attn_layer_norm", encoder_attn_layer_norm_);
  add_children_of(feed_forward_);
}

LayerOutput DecoderLayer::attend_self(const Variable& x, const AttentionOptions& mask,
                                      const ForwardContext& context) const {
  const Variable input = self_attn_layer_norm_.input(x);
  LayerOutput attention = self_attn_.forward(input, {}, mask, context);
  self_attn_layer_norm_.recompute_input(input, x);
  return {self_attn_layer_norm_.output(x, attention.y, context), std::move(attention.routing)};
}

LayerOutput DecoderLayer::attend_memory(const Variable& x, const Variable& memory,
                                        const AttentionOptions& mask, const ForwardContext& context) const {
  const Variable input = encoder_attn_layer_norm_.input(x);
  LayerOutput attention = encoder_attn_.forward(input, memory, mask, context);
  encoder_attn_layer_norm_.recompute_input(input, x);
  const Variable h = encoder_attn_layer_norm_.output(x, attention.y, context);
  return {feed_forward_(h, context), std::move(attention.routing)};
}

Variable DecoderLayer::decode(const Variable& x, LayerCache& cache, const MemoryKeys& memory,
                              const AttentionOptions& mask) const {
  const Shape token_of_rows{x.dim(1), 1, x.dim(2)};
  const Variable input = reshape(self_attn_layer_norm_.input(x), token_of_rows);
  const Variable self = reshape(self_attn_.decode(input, cache), x.shape());
  const Variable h = self_attn_layer_norm_.output(x, self, {});
  const Variable cross = encoder_attn_.decode(encoder_attn_layer_norm_.input(h), memory, mask);
  return feed_forward_(encoder_attn_layer_norm_.output(h, cross, {}));
}

}  // namespace moh
