#include "models/vision/vit.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/late_parameters.h"
#include "models/layers/drop_path.h"
#include "models/layers/run_layer.h"
#include "models/vision/resample.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/linalg/mix_rows.h"
#include "ops/pool/adaptive_avg_pool.h"
#include "ops/shape/reshape.h"
#include "ops/tokens/add_positions.h"

namespace moh {

namespace {

constexpr double kInitStd = 0.02;
/// DeiT cuts initial values at 2, this many standard deviations.
constexpr double kInitCut = 2 / kInitStd;

VitConfig checked(const VitConfig& config) {
  require_valid(config);
  if (config.moh.shared_heads.to_be_measured())
    throw ValueError(error_message("vit", "moh.shared_heads", "first, or lists of heads",
                                   "a rule that is measured before the model is made"));
  return config;
}

GridSize trained_grid(const VitConfig& c) {
  const std::int64_t side = c.image_size / c.patch_size;
  return {side, side};
}

bool has_class_token(const VitConfig& c) {
  return c.pooling == VitPooling::kClassToken;
}

double drop_path_of(const VitConfig& c, std::int64_t layer) {
  return c.layers > 1 ? c.drop_path * static_cast<double>(layer) / static_cast<double>(c.layers - 1) : 0;
}

}  // namespace

VitBlock::Mlp::Mlp(std::int64_t width, std::int64_t hidden, Placement placement)
    : fc1(width, hidden, true, placement), fc2(hidden, width, true, placement) {
  add_child("fc1", fc1);
  add_child("fc2", fc2);
}

VitBlock::VitBlock(const VitConfig& c, const HeadRoutingOptions& routing, std::int64_t layer,
                   Placement placement)
    : drop_path_(drop_path_of(c, layer)),
      recompute_(c.recompute),
      norm1_(c.hidden, c.norm_eps, placement),
      attn_({.width = c.hidden,
             .heads = c.heads,
             .head_dim = c.head_width(),
             .routing = routing,
             .layer = layer,
             .kv_heads = c.single_kv_head ? 1 : c.heads,
             .gate = c.attention_gate,
             .recompute = c.recompute},
            placement),
      norm2_(c.hidden, c.norm_eps, placement),
      mlp_(c.hidden, c.mlp_ratio * c.hidden, placement) {
  add_child("norm1", norm1_);
  add_child("attn", attn_);
  add_child("norm2", norm2_);
  add_child("mlp", mlp_);
}

StreamOutput VitBlock::forward(ResidualStream stream, const ForwardContext& context) const {
  const AddedAndNormed input = std::exchange(stream, {}).normed(norm1_);
  LayerOutput attention = attn_.forward(input.normed, context);
  norm1_.recompute(recompute_, input);
  const AddedAndNormed of_mlp =
      ResidualStream{input.sum, branch_of(std::move(attention.y), drop_path_, context)}.normed(norm2_);
  Variable mlp = gelu_mlp(of_mlp.normed, mlp_.fc1.weight(), mlp_.fc1.bias(), mlp_.fc2.weight(),
                          mlp_.fc2.bias(), GeluForm::kExact, recomputes_mlp(recompute_));
  norm2_.recompute(recompute_, of_mlp);
  return {{of_mlp.sum, branch_of(std::move(mlp), drop_path_, context)}, std::move(attention.routing)};
}

Vit::PatchEmbed::PatchEmbed(const VitConfig& c, Placement placement)
    : proj(c.channels, c.hidden, c.patch_size, {.stride = c.patch_size}, placement) {
  add_child("proj", proj);
}

Vit::Vit(const VitConfig& config, Placement placement)
    : ImageModel(placement),
      config_(checked(config)),
      patch_embed_(config_, placement),
      norm_(config_.hidden, config_.norm_eps, placement),
      head_(config_.hidden, config_.classes, true, placement) {
  const bool token = has_class_token(config_);
  if (token) cls_token_ = add_parameter("cls_token", {1, 1, config_.hidden}, placement);
  pos_embed_ = add_parameter(
      "pos_embed", {1, trained_grid(config_).tokens() + (token ? 1 : 0), config_.hidden}, placement);
  add_child("patch_embed", patch_embed_);
  const std::vector<HeadRoutingOptions> routing = routing_of(config_);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    blocks_.push_back(
        std::make_unique<VitBlock>(config_, routing[static_cast<std::size_t>(i)], i, placement));
    add_child("blocks." + std::to_string(i), *blocks_.back());
  }
  add_child(token ? "norm" : "fc_norm", norm_);
  add_child("head", head_);
}

void Vit::initialise(std::uint64_t seed) {
  const double bound =
      1 / std::sqrt(static_cast<double>(config_.channels * config_.patch_size * config_.patch_size));
  fill_each(parameters(), [&](const NamedParameter& p) {
    const Tensor& value = p.variable.value();
    if (p.name.starts_with("patch_embed.")) {
      fill_uniform(value, initialisation_key(seed, p.name), -bound, bound);
    } else if (value.rank() == 1) {
      value.fill(p.name.ends_with(".weight") ? 1.0 : 0.0);  // of a norm
    } else {
      fill_normal(value, initialisation_key(seed, p.name), 0.0, kInitStd, kInitCut);
    }
  });
  initialise_routers(*this, config_.moh.router_init);
}

double Vit::init_std() const {
  return kInitStd;
}

bool Vit::set_progress(double share) {
  bool changed = false;
  for (const auto& block : blocks_) {
    if (HeadRouter* router = block->router()) changed |= router->set_progress(share);
  }
  return changed;
}

std::vector<HeadRoutingOptions> Vit::routing() const {
  return with_learned_heads(*this, routing_of(config_));
}

std::vector<const HeadRouter*> Vit::routers() const {
  std::vector<const HeadRouter*> found;
  for (const auto& block : blocks_) found.push_back(block->router());
  return found;
}

bool Vit::decays(const NamedParameter& parameter) const {
  return parameter.variable.shape().rank() > 1 && parameter.name != "pos_embed" &&
         parameter.name != "cls_token";
}

/// The position embeddings of a grid, [1, T, D].
Variable Vit::positions_for(const GridSize& grid) const {
  const GridSize trained = trained_grid(config_);
  if (grid == trained) return pos_embed_;
  const Tensor& weights = position_weights_.get(grid, [&] {
    const std::int64_t prefix = has_class_token(config_) ? 1 : 0;
    return position_weights(trained, grid, prefix).to(accumulate_dtype(dtype())).to(device());
  });
  const Variable rows = reshape(pos_embed_, {weights.dim(1), config_.hidden});
  return reshape(mix_rows(weights, rows), {1, weights.dim(0), config_.hidden});
}

Variable Vit::tokens_of(const Variable& images) const {
  const Variable patches = patch_embed_.proj(images);
  const GridSize grid{patches.dim(1), patches.dim(2)};
  return add_positions(reshape(patches, {images.dim(0), grid.tokens(), config_.hidden}), cls_token_,
                       positions_for(grid));
}

ImageOutput Vit::forward(const Variable& images, const ForwardContext& context) const {
  return run(images, context, nullptr);
}

ImageOutput Vit::forward_with_tokens(const Variable& images, ImageTokens& tokens) const {
  return run(images, {}, &tokens);
}

ImageOutput Vit::run(const Variable& images, const ForwardContext& context, ImageTokens* tokens) const {
  const MathModeScope mode(placement().math);
  require_images("vit", images, config_.channels);
  require_per_layer("vit", context, config_.layers);
  const std::int64_t patch = config_.patch_size;
  if (images.dim(1) % patch != 0 || images.dim(2) % patch != 0) {
    throw ShapeError(error_message("vit", "images",
                                   "sides that are multiples of patch_size (" + std::to_string(patch) + ")",
                                   to_string(images.shape())));
  }
  ResidualStream stream{tokens_of(images)};
  ImageOutput output;
  for (const auto& block : blocks_) {
    StreamOutput result =
        run_layer(config_.recompute, std::move(stream), {}, context,
                  [&block = *block, context](ResidualStream in, const Variable& /*condition*/) {
                    return block.forward(std::move(in), context);
                  });
    stream = std::move(result.stream);
    if (tokens != nullptr) tokens->after_blocks.push_back(stream.sum().value());
    if (result.routing) output.routing.push_back(*std::move(result.routing));
  }
  const Variable x = std::exchange(stream, {}).sum();
  if (tokens != nullptr) tokens->last = has_class_token(config_) ? norm_(x).value() : x.value();
  const Variable pooled =
      has_class_token(config_)
          ? take_token(x, 0)
          : reshape(adaptive_avg_pool(reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}), 1, 1),
                    {x.dim(0), x.dim(2)});
  output.features = norm_(pooled);
  output.logits = head_(output.features);
  return output;
}

}  // namespace moh
