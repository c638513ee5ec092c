#include "models/llm/llama.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "models/late_parameters.h"
#include "models/layers/run_layer.h"
#include "ops/embedding/embedding.h"

namespace moh {

namespace {

LlamaConfig checked(const LlamaConfig& config) {
  require_valid(config);
  if (config.moh.shared_heads.to_be_measured())
    throw ValueError(error_message("llama", "moh.shared_heads", "first, or lists of heads",
                                   "a rule that is measured before the model is made"));
  return spelt_out(config);
}

void require_length(std::int64_t tokens, std::int64_t max_positions) {
  if (tokens <= max_positions) return;
  throw ShapeError(error_message("llama", "tokens",
                                 "at most max_positions (" + std::to_string(max_positions) + ")",
                                 std::to_string(tokens)));
}

void require_tokens(const Tensor& tokens, std::int64_t before, std::int64_t max_positions) {
  if (tokens.rank() != 2)
    throw ShapeError(error_message("llama", "tokens", "[B, T]", to_string(tokens.shape())));
  require_length(before + tokens.dim(1), max_positions);
}

bool is_output_projection(std::string_view name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
}

}  // namespace

Llama::Body::Embedding::Embedding(const LlamaConfig& c, Placement placement)
    : weight(add_parameter("weight", {c.vocab_size, c.hidden}, placement)) {}

Llama::Body::Body(const LlamaConfig& c, Placement placement)
    : embed_tokens(c, placement), norm(c.hidden, c.norm_eps, placement) {
  add_child("embed_tokens", embed_tokens);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    layers.push_back(std::make_unique<LlamaLayer>(c, i, placement));
    add_child("layers." + std::to_string(i), *layers.back());
  }
  add_child("norm", norm);
}

Llama::Llama(const LlamaConfig& config, Placement placement)
    : Model(placement), config_(checked(config)), model_(config_, placement), rope_(config_, placement) {
  add_child("model", model_);
  if (!config.tied_embeddings) {
    lm_head_ = std::make_unique<Linear>(config.hidden, config.vocab_size, false, placement);
    add_child("lm_head", *lm_head_);
  }
  for (NamedParameter& p : parameters())
    if (!trains(config_.lora, p.name)) p.variable.set_requires_grad(false);
}

void Llama::initialise(std::uint64_t seed) {
  const double output_std = config_.init_std / std::sqrt(2.0 * static_cast<double>(config_.layers));
  fill_each(parameters(), [&](const NamedParameter& p) {
    if (is_adapter(p.name)) {
      initialise_adapter(p, initialisation_key(seed, p.name));
    } else if (p.variable.shape().rank() == 1) {
      p.variable.value().fill(p.name.ends_with(".bias") ? 0.0 : 1.0);
    } else {
      const double std = is_output_projection(p.name) ? output_std : config_.init_std;
      fill_normal(p.variable.value(), initialisation_key(seed, p.name), 0.0, std);
    }
  });
  initialise_routers(*this, config_.moh.router_init);
}

bool Llama::set_progress(double share) {
  bool changed = false;
  for (const std::unique_ptr<LlamaLayer>& layer : model_.layers) {
    if (HeadRouter* router = layer->router()) changed |= router->set_progress(share);
  }
  return changed;
}

std::vector<HeadRoutingOptions> Llama::routing() const {
  return routing_of(config_);
}

std::vector<const HeadRouter*> Llama::routers() const {
  std::vector<const HeadRouter*> found;
  for (const std::unique_ptr<LlamaLayer>& layer : model_.layers) found.push_back(layer->router());
  return found;
}

Variable Llama::logits_of(const ResidualStream& hidden) const {
  const Variable normed = hidden.normed(model_.norm).normed;
  return lm_head_ ? (*lm_head_)(normed) : linear(normed, model_.embed_tokens.weight);
}

LlamaOutput Llama::forward(const Tensor& tokens, const ForwardContext& context) const {
  const MathModeScope mode(placement().math);
  require_tokens(tokens, 0, config_.max_positions);
  require_per_layer("llama", context, config_.layers);
  const RopeTable table = rope_.rows(0, tokens.dim(1));
  ResidualStream stream{embedding(model_.embed_tokens.weight, tokens.to(device()))};
  LlamaOutput output;
  for (const std::unique_ptr<LlamaLayer>& layer : model_.layers) {
    StreamOutput result =
        run_layer(config_.recompute, std::move(stream), {}, context,
                  [&layer = *layer, table, context](ResidualStream in, const Variable& /*condition*/) {
                    return layer.forward(std::move(in), table, context);
                  });
    stream = std::move(result.stream);
    if (result.routing) output.routing.push_back(*std::move(result.routing));
  }
  output.logits = logits_of(stream);
  return output;
}

KvCache Llama::make_cache(std::int64_t batch, std::int64_t capacity) const {
  if (capacity < 1 || capacity > config_.max_positions) {
    throw ValueError(error_message("llama", "cache capacity",
                                   "1 to max_positions (" + std::to_string(config_.max_positions) + ")",
                                   std::to_string(capacity)));
  }
  KvCache cache;
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    if (const RoutedKeys* routed = model_.layers[static_cast<std::size_t>(i)]->routed_keys()) {
      cache.layers.emplace_back(batch, routed->windows(), capacity, config_.head_dim, dtype(), device());
      continue;
    }
    cache.layers.emplace_back(batch, config_.kv_heads, capacity, config_.head_dim,
                              config_.sliding_window.at(i), dtype(), device());
  }
  return cache;
}

bool Llama::counts_in_heads() const {
  return config_.moh.positions == HeadPositions::kHead;
}

/// The rows of `count` tokens after `before` others; where heads count positions, those of all positions.
RopeTable Llama::rows_after(std::int64_t before, std::int64_t count) const {
  return counts_in_heads() ? rope_.rows(0, config_.max_positions) : rope_.rows(before, count);
}

Tensor Llama::decode_hidden(const Tensor& tokens, KvCache& cache) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  require_tokens(tokens, cache.length(), config_.max_positions);
  const RopeTable table = rows_after(cache.length(), tokens.dim(1));
  Variable x = embedding(model_.embed_tokens.weight, tokens.to(device()));
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    x = model_.layers[i]->decode(x, table, cache.layers[i]);
  }
  return x.value().reshape({tokens.numel(), config_.hidden});
}

Tensor Llama::logits_at(const Tensor& hidden, const Tensor& rows) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  const Variable chosen = embedding(Variable(hidden), rows.to(device()));
  return logits_of({chosen}).value().to(accumulate_dtype(dtype()));
}

Tensor Llama::decode(const Tensor& tokens, KvCache& cache) const {
  const Tensor hidden = decode_hidden(tokens, cache);
  const std::int64_t batch = tokens.dim(0), length = tokens.dim(1);
  Tensor last = empty({batch}, DType::kInt64);
  for (std::int64_t b = 0; b < batch; ++b) last.data<std::int64_t>()[b] = (b + 1) * length - 1;
  return logits_at(hidden, last);
}

std::int64_t Llama::steady_positions() const {
  const RopeScaling& scaling = config_.rope_scaling;
  return scaling.kind == RopeScalingKind::kDynamic
             ? std::min(config_.max_positions, scaling.original_positions)
             : config_.max_positions;
}

/// The rows of the next tokens of each text.
RopeTable Llama::next_rows(std::span<const std::int64_t> counts, std::span<KvCache* const> caches) const {
  RopeTable all;
  std::int64_t begin = 0;
  for (std::size_t b = 0; b < caches.size(); ++b) {
    RopeTable rows = rows_after(caches[b]->length(), counts[b]);
    if (caches.size() == 1 || counts_in_heads()) return rows;
    if (b == 0) {
      const Shape shape{std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), rows.cos.dim(1)};
      all = {empty(shape, rows.cos.dtype(), rows.cos.device()),
             empty(shape, rows.sin.dtype(), rows.sin.device())};
    }
    all.cos.slice(begin, begin + counts[b]).copy_from(rows.cos);
    all.sin.slice(begin, begin + counts[b]).copy_from(rows.sin);
    begin += counts[b];
  }
  return all;
}

Tensor Llama::decode_pieces(const Tensor& tokens, std::span<const std::int64_t> counts,
                            std::span<KvCache* const> caches) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  std::vector<PieceOfText> pieces;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) pieces.push_back({std::exchange(total, total + count), count});
  const bool all_have_some = std::ranges::all_of(counts, [](std::int64_t count) { return count > 0; });
  if (counts.size() != caches.size() || caches.empty() || !all_have_some || tokens.shape() != Shape{total}) {
    throw ShapeError(error_message("llama", "tokens",
                                   "one or more of each of " + std::to_string(caches.size()) + " caches, [" +
                                       std::to_string(total) + "]",
                                   to_string(tokens.shape())));
  }
  for (std::size_t b = 0; b < caches.size(); ++b)
    require_length(caches[b]->length() + counts[b], config_.max_positions);
  const RopeTable table = next_rows(counts, caches);
  Variable x = embedding(model_.embed_tokens.weight, tokens.reshape({1, total}).to(device()));
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    for (std::size_t b = 0; b < caches.size(); ++b) pieces[b].cache = &caches[b]->layers[i];
    x = model_.layers[i]->decode_each(x, table, pieces);
  }
  return x.value().reshape({total, config_.hidden});
}

Tensor Llama::decode_each(const Tensor& tokens, std::span<KvCache* const> caches) const {
  const std::vector<std::int64_t> ones(caches.size(), 1);
  const Tensor hidden = decode_pieces(tokens, ones, caches);
  const NoGrad no_grad;
  const MathModeScope mode(placement().math);
  return logits_of({Variable(hidden)}).value().to(accumulate_dtype(dtype()));
}

}  // namespace moh
