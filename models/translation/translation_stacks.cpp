#include "models/translation/translation_stacks.h"

#include <cmath>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/allocator.h"
#include "core/dry_run.h"
#include "models/layers/dropped.h"
#include "models/layers/run_layer.h"
#include "models/translation/position_table.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/embedding/embedding.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

/// `count` ids from `first` on.
Tensor ids_from(std::int64_t first, std::int64_t count, Device device) {
  const Tensor ids = empty({count}, DType::kInt64);
  if (dry_run()) return ids.to(device);
  for (std::int64_t i = 0; i < count; ++i) ids.data<std::int64_t>()[i] = first + i;
  return ids.to(device);
}

void take(LayerOutput result, Variable& x, std::vector<LayerRouting>& routing) {
  x = std::move(result.y);
  if (result.routing) routing.push_back(*std::move(result.routing));
}

}  // namespace

TokenEmbedding::TokenEmbedding(const TranslationConfig& c, std::int64_t vocab_size, const Variable& shared,
                               Placement placement)
    : scale_(c.scale_embedding ? std::sqrt(static_cast<double>(c.hidden)) : 1),
      dropout_(c.dropout),
      table_(shared.defined() ? shared
                              : add_parameter("embed_tokens.weight", {vocab_size, c.hidden}, placement)) {
  if (c.positions == PositionKind::kLearned) {
    positions_ =
        add_parameter("embed_positions.weight", {c.position_offset + c.max_positions, c.hidden}, placement);
    if (c.position_offset > 0) places_ = ids_from(c.position_offset, c.max_positions, placement.device);
  } else {
    const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
    positions_ = Variable(position_table(c).to(placement.dtype).to(placement.device));
  }
  if (c.embedding_norm) add_child("layernorm_embedding", norm_.emplace(c.hidden, c.norm_eps, placement));
}

/// Rows of positions by the place in a sentence.
Variable TokenEmbedding::position_rows() const {
  return places_.defined() ? embedding(positions_, places_) : positions_;
}

Variable TokenEmbedding::operator()(const Tensor& tokens, const Tensor& positions,
                                    const ForwardContext& context) const {
  const Variable scaled = scale(embedding(table_, tokens), scale_);
  const Variable placed = add(scaled, embedding(position_rows(), positions));
  const Variable x = reshape(placed, {1, placed.dim(0), placed.dim(1)});
  return dropped(norm_ ? (*norm_)(x) : x, dropout_, context);
}

TranslationEncoder::TranslationEncoder(const TranslationConfig& c, Placement placement)
    : recompute_(c.recompute), embedding_(c, c.source_vocab_size, {}, placement) {
  add_children_of(embedding_);
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
    layers_.push_back(std::make_unique<EncoderLayer>(c, i, placement));
    add_child("layers." + std::to_string(i), *layers_.back());
  }
  if (c.norm == NormPlace::kBefore)
    add_child("layer_norm", layer_norm_.emplace(c.hidden, c.norm_eps, placement));
}

Variable TranslationEncoder::forward(const PackedPairs& pairs, const ForwardContext& context,
                                     std::vector<LayerRouting>& routing) const {
  const AttentionOptions mask{.causal = false,
                              .document_starts = pairs.source_starts,
                              .document_ends = pairs.source_ends,
                              .sequences = {.mean_visible = pairs.mean_source}};
  Variable x = embedding_(pairs.source, pairs.source_positions, context);
  for (const std::unique_ptr<EncoderLayer>& each : layers_) {
    take(run_layer(recompute_, x, context,
                   [&layer = *each, mask, context](const Variable& in) {
                     return layer.forward(in, mask, context);
                   }),
         x, routing);
  }
  return layer_norm_ ? (*layer_norm_)(x) : x;
}

TranslationDecoder::TranslationDecoder(const TranslationConfig& c, const Variable& shared,
                                       Placement placement)
    : recompute_(c.recompute), embedding_(c, c.vocab_size, shared, placement) {
  add_children_of(embedding_);
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    layers_.push_back(std::make_unique<DecoderLayer>(c, c.encoder_layers + 2 * i, placement));
    add_child("layers." + std::to_string(i), *layers_.back());
  }
  if (c.norm == NormPlace::kBefore)
    add_child("layer_norm", layer_norm_.emplace(c.hidden, c.norm_eps, placement));
  if (c.shared_embeddings == SharedEmbeddings::kNone)
    add_child("output_projection", output_.emplace(c.hidden, c.vocab_size, false, placement));
}

Variable TranslationDecoder::forward(const PackedPairs& pairs, const Variable& memory,
                                     const ForwardContext& context,
                                     std::vector<LayerRouting>& routing) const {
  const AttentionOptions self{.document_starts = pairs.target_starts,
                              .sequences = {.mean_visible = pairs.mean_target}};
  const AttentionOptions cross{.causal = false,
                               .document_starts = pairs.memory_starts,
                               .document_ends = pairs.memory_ends,
                               .sequences = {.mean_visible = pairs.mean_memory}};
  Variable x = embedding_(pairs.target, pairs.target_positions, context);
  for (const std::unique_ptr<DecoderLayer>& each : layers_) {
    const DecoderLayer& layer = *each;
    take(run_layer(
             recompute_, x, context,
             [&layer, self, context](const Variable& in) { return layer.attend_self(in, self, context); }),
         x, routing);
    take(run_layer(recompute_, std::vector<Variable>{x, memory}, context,
                   [&layer, cross, context](const std::vector<Variable>& in) {
                     return layer.attend_memory(in[0], in[1], cross, context);
                   }),
         x, routing);
  }
  return normed(x);
}

std::vector<MemoryKeys> TranslationDecoder::keys_of(const Variable& memory) const {
  std::vector<MemoryKeys> keys;
  for (const std::unique_ptr<DecoderLayer>& layer : layers_)
    keys.push_back(layer->encoder_attn().keys_of(memory));
  return keys;
}

Variable TranslationDecoder::decode(const Tensor& tokens, std::vector<LayerCache>& caches,
                                    const std::vector<MemoryKeys>& memory,
                                    const AttentionOptions& mask) const {
  const NoGrad no_grad;
  const Tensor positions =
      full(tokens.shape(), static_cast<double>(caches.front().length()), DType::kInt64).to(tokens.device());
  Variable x = embedding_(tokens, positions, {});
  for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i]->decode(x, caches[i], memory[i], mask);
  return normed(x);
}

}  // namespace moh
