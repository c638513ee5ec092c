#include "models/translation/translation_model.h"

#include <cmath>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "models/late_parameters.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

TranslationConfig checked(const TranslationConfig& config) {
  require_valid(config);
  if (config.moh.shared_heads.to_be_measured())
    throw ValueError(error_message("translation", "moh.shared_heads", "first, or lists of heads",
                                   "a rule that is measured before the model is made"));
  return spelt_out(config);
}

void require_length(std::string_view side, std::int64_t longest, std::int64_t max_positions) {
  if (longest <= max_positions) return;
  throw ValueError(error_message("translation", std::string(side) + " sentence",
                                 "at most max_positions (" + std::to_string(max_positions) + ") tokens",
                                 std::to_string(longest)));
}

bool is_table(std::string_view name) {
  return name.find("embed_tokens.") != std::string_view::npos ||
         name.find("embed_positions.") != std::string_view::npos ||
         name.find("output_projection.") != std::string_view::npos;
}

/// Queries, keys and values, which fairseq takes for three parts of one matrix.
bool is_part(std::string_view name) {
  return name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight") ||
         name.ends_with("v_proj.weight");
}

/// Half the width of Xavier's uniform distribution of a matrix [outputs, inputs].
double xavier_bound(const Tensor& matrix) {
  return std::sqrt(6.0 / static_cast<double>(matrix.dim(0) + matrix.dim(1)));
}

}  // namespace

TranslationModel::TranslationModel(const TranslationConfig& config, Placement placement)
    : Model(placement),
      config_(checked(config)),
      encoder_(config_, placement),
      decoder_(config_, config_.shared_embeddings == SharedEmbeddings::kAll ? encoder_.table() : Variable(),
               placement) {
  add_child("encoder", encoder_);
  add_child("decoder", decoder_);
  if (config_.output_bias)
    output_bias_ = add_parameter("final_logits_bias", {1, config_.vocab_size}, placement);
}

void TranslationModel::initialise(std::uint64_t seed) {
  const double table_std = 1 / std::sqrt(static_cast<double>(config_.hidden));
  fill_each(parameters(), [&](const NamedParameter& p) {
    const Tensor& value = p.variable.value();
    if (value.rank() == 1) {
      value.fill(p.name.ends_with("norm.weight") || p.name.ends_with("layernorm_embedding.weight") ? 1.0
                                                                                                   : 0.0);
    } else if (p.name == "final_logits_bias") {
      value.fill(0.0);
    } else if (is_table(p.name)) {
      fill_normal(value, initialisation_key(seed, p.name), 0.0, table_std);
    } else {
      const double bound = xavier_bound(value) * (is_part(p.name) ? std::sqrt(0.5) : 1.0);
      fill_uniform(value, initialisation_key(seed, p.name), -bound, bound);
    }
  });
  initialise_routers(*this, config_.moh.router_init);
}

double TranslationModel::init_std() const {
  return std::sqrt(2.0 / static_cast<double>(config_.hidden + config_.heads));
}

bool TranslationModel::decays(const NamedParameter& parameter) const {
  return is_matrix(parameter) && parameter.name != "final_logits_bias";
}

bool TranslationModel::set_progress(double share) {
  bool changed = false;
  const auto tell = [&](TranslationAttention& attention) {
    if (HeadRouter* router = attention.router()) changed |= router->set_progress(share);
  };
  for (const auto& layer : encoder_.layers()) tell(layer->self_attn());
  for (const auto& layer : decoder_.layers()) {
    tell(layer->self_attn());
    tell(layer->encoder_attn());
  }
  return changed;
}

std::vector<HeadRoutingOptions> TranslationModel::routing() const {
  return routing_of(config_);
}

std::vector<const HeadRouter*> TranslationModel::routers() const {
  std::vector<const HeadRouter*> found;
  for (const auto& layer : encoder_.layers()) found.push_back(std::as_const(*layer).self_attn().router());
  for (const auto& layer : decoder_.layers()) {
    found.push_back(std::as_const(*layer).self_attn().router());
    found.push_back(std::as_const(*layer).encoder_attn().router());
  }
  return found;
}

Variable TranslationModel::logits_of(const Variable& hidden) const {
  const Variable bias = output_bias_.defined() ? reshape(output_bias_, {config_.vocab_size}) : Variable();
  return linear(hidden, decoder_.output(), bias);
}

TranslationModel::Output TranslationModel::forward(const PackedPairs& pairs,
                                                   const ForwardContext& context) const {
  const MathModeScope mode(placement().math);
  require_length("source", pairs.longest_source, config_.max_positions);
  require_length("target", pairs.longest_target, config_.max_positions);
  require_per_layer("translation", context, config_.attention_layers());
  Output output;
  const Variable memory = encoder_.forward(pairs, context, output.routing);
  output.logits = logits_of(decoder_.forward(pairs, memory, context, output.routing));
  return output;
}

TranslationModel::Memory TranslationModel::encode(const Tensor& source,
                                                  std::span<const std::int64_t> lengths) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  const PackedPairs packed = pack_sources(source, lengths).to(device());
  require_length("source", packed.longest_source, config_.max_positions);
  std::vector<LayerRouting> routing;
  Memory memory;
  memory.layers = decoder_.keys_of(encoder_.forward(packed, {}, routing));
  std::int64_t end = 0;
  for (const std::int64_t length : lengths) {
    memory.starts.push_back(end);
    memory.ends.push_back(end += length);
  }
  return memory;
}

Decoding TranslationModel::begin(Memory memory, std::vector<std::int64_t> sentence_of_row,
                                 std::int64_t capacity) const {
  if (capacity < 1 || capacity > config_.max_positions)
    throw ValueError(error_message("translation", "capacity of the decoding",
                                   "1 to max_positions (" + std::to_string(config_.max_positions) + ")",
                                   std::to_string(capacity)));
  const auto rows = static_cast<std::int64_t>(sentence_of_row.size());
  std::vector<LayerCache> caches;
  for (std::int64_t i = 0; i < config_.decoder_layers; ++i)
    caches.push_back(
        LayerCache::growing(rows, config_.kv_heads, capacity, config_.head_dim, dtype(), device()));
  return {std::move(memory), std::move(caches), std::move(sentence_of_row)};
}

Tensor TranslationModel::step(const Tensor& tokens, Decoding& decoding) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  if (tokens.shape() != Shape{decoding.rows()})
    throw ShapeError(error_message("translation", "tokens",
                                   "one of each row, [" + std::to_string(decoding.rows()) + "]",
                                   to_string(tokens.shape())));
  const AttentionOptions mask{
      .causal = false, .document_starts = decoding.memory_starts_, .document_ends = decoding.memory_ends_};
  const Variable hidden = decoder_.decode(tokens.to(device()), decoding.self_, decoding.memory_.layers, mask);
  return logits_of(hidden)
      .value()
      .reshape({decoding.rows(), config_.vocab_size})
      .to(accumulate_dtype(dtype()));
}

}  // namespace moh
