#include "models/vision/transnext.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/late_parameters.h"
#include "models/layers/run_layer.h"
#include "ops/pool/adaptive_avg_pool.h"
#include "ops/shape/reshape.h"

namespace moh {

namespace {

constexpr double kStageEps = 1e-6, kTransNextInitStd = 0.02, kLocalBiasStd = 0.0004,
                 kFirstTemperature = 1 / 0.24;
/// The released code cuts initial values at 2, this many standard deviations.
constexpr double kTransNextInitCut = 2 / kTransNextInitStd;

TransNextConfig checked(const TransNextConfig& config) {
  require_valid(config);
  if (config.moh.shared_heads.to_be_measured())
    throw ValueError(error_message("transnext", "moh.shared_heads", "first, or lists of heads",
                                   "a rule that is measured before the model is made"));
  return config;
}

/// Outputs of a convolution that read an input.
double fan_out(const NamedParameter& p) {
  const Shape& shape = p.variable.shape();
  const bool depthwise = p.name.find("dwconv") != std::string::npos;
  return static_cast<double>(shape[2] * shape[3] * (depthwise ? 1 : shape[0]));
}

void initialise_parameter(const NamedParameter& p, std::uint64_t seed) {
  const Tensor& value = p.variable.value();
  const auto normal = [&](double std, double cut) {
    fill_normal(value, initialisation_key(seed, p.name), 0.0, std, cut);
  };
  if (p.name.ends_with(".temperature")) return value.fill(std::log(std::expm1(kFirstTemperature)));
  if (p.name.ends_with(".learnable_bias")) return value.fill(0.0);
  if (p.name.ends_with(".relative_pos_bias_local")) return normal(kLocalBiasStd, 2 / kLocalBiasStd);
  if (value.rank() == 1) return value.fill(p.name.ends_with(".weight") ? 1.0 : 0.0);  // of a norm
  if (value.rank() == 4) return normal(std::sqrt(2.0 / fan_out(p)), 0.0);
  normal(kTransNextInitStd, kTransNextInitCut);
}

}  // namespace

TransNext::Stage TransNext::make_stage(std::int64_t number, std::int64_t first_block,
                                       const std::vector<HeadRoutingOptions>& routing,
                                       Placement placement) const {
  const TransNextConfig& c = config_;
  const auto s = static_cast<std::size_t>(number);
  Stage stage;
  const OverlapPatchEmbed::Sizes patches =
      s == 0 ? OverlapPatchEmbed::Sizes{c.channels, c.dims[0], 2 * c.patch_size - 1, c.patch_size}
             : OverlapPatchEmbed::Sizes{c.dims[s - 1], c.dims[s], 3, 2};
  stage.patch_embed = std::make_unique<OverlapPatchEmbed>(patches, placement);
  const double last = static_cast<double>(std::max<std::int64_t>(num_blocks(c) - 1, 1));
  for (std::int64_t i = first_block; i < first_block + c.depths[s]; ++i) {
    const TransNextAttentionOptions attention{.width = c.dims[s],
                                              .heads = c.heads[s],
                                              .head_dim = c.head_width(s),
                                              .single_kv_head = c.single_kv_head,
                                              .window = c.pool_ratios[s] > 1 ? c.window : 0,
                                              .kept_keys = c.kept_keys.empty() ? 100 : c.kept_keys[s],
                                              .routing = routing[static_cast<std::size_t>(i)],
                                              .layer = i,
                                              .gate = c.attention_gate,
                                              .recompute = c.recompute};
    stage.blocks.push_back(std::make_unique<TransNextBlock>(
        attention, TransNextBlock::FeedForward{glu_hidden(c, number), c.experts},
        c.drop_path * static_cast<double>(i) / last, placement));
  }
  stage.norm = std::make_unique<LayerNorm>(c.dims[s], kStageEps, placement);
  stage.grids = std::make_unique<PerSize<std::shared_ptr<const StageGrid>>>();
  return stage;
}

TransNext::TransNext(const TransNextConfig& config, Placement placement)
    : ImageModel(placement),
      config_(checked(config)),
      head_(config_.dims.back(), config_.classes, true, placement) {
  const std::vector<HeadRoutingOptions> routing = routing_of(config_);
  std::int64_t first_block = 0;
  for (std::int64_t s = 0; s < config_.stages(); ++s) {
    stages_.push_back(make_stage(s, first_block, routing, placement));
    const Stage& stage = stages_.back();
    const std::string number = std::to_string(s + 1);
    add_child("patch_embed" + number, *stage.patch_embed);
    for (std::size_t i = 0; i < stage.blocks.size(); ++i)
      add_child("block" + number + "." + std::to_string(i), *stage.blocks[i]);
    add_child("norm" + number, *stage.norm);
    first_block += config_.depths[static_cast<std::size_t>(s)];
  }
  add_child("head", head_);
}

void TransNext::initialise(std::uint64_t seed) {
  fill_each(parameters(), [&](const NamedParameter& p) { initialise_parameter(p, seed); });
  initialise_routers(*this, config_.moh.router_init);
}

double TransNext::init_std() const {
  return kTransNextInitStd;
}

bool TransNext::set_progress(double share) {
  bool changed = false;
  for (const Stage& stage : stages_) {
    for (const auto& block : stage.blocks) {
      if (HeadRouter* router = block->router()) changed |= router->set_progress(share);
    }
  }
  return changed;
}

std::vector<HeadRoutingOptions> TransNext::routing() const {
  return with_learned_heads(*this, routing_of(config_));
}

std::vector<const HeadRouter*> TransNext::routers() const {
  std::vector<const HeadRouter*> found;
  for (const Stage& stage : stages_) {
    for (const auto& block : stage.blocks) found.push_back(block->router());
  }
  return found;
}

bool TransNext::decays(const NamedParameter& parameter) const {
  constexpr std::array<std::string_view, 4> kWithout = {"query_embedding", "relative_pos_bias_local", "cpb",
                                                        "temperature"};
  const auto is_part = [&](std::string_view part) { return parameter.name.find(part) != std::string::npos; };
  return parameter.variable.shape().rank() > 1 && !parameter.name.ends_with(".bias") &&
         std::ranges::none_of(kWithout, is_part);
}

StageGrid TransNext::make_grid(std::int64_t stage, const GridSize& tokens) const {
  const std::int64_t ratio = config_.pool_ratios[static_cast<std::size_t>(stage)];
  const auto cells = [&](std::int64_t side) {
    if (ratio > 1 && config_.fixed_pool_size > 0) return std::min(config_.fixed_pool_size, side);
    return std::max<std::int64_t>(side / ratio, 1);
  };
  const std::int64_t trained =
      std::max<std::int64_t>(config_.pretrain_size / (config_.patch_size << stage), 1);
  const GridSize pooled{cells(tokens.height), cells(tokens.width)};
  RelativePositions positions = relative_positions(tokens, pooled, {trained, trained});
  return {tokens, pooled, {positions.coordinates.to(dtype()).to(device()), positions.index.to(device())}};
}

ImageOutput TransNext::forward(const Variable& images, const ForwardContext& context) const {
  return run(images, context, nullptr);
}

ImageOutput TransNext::forward_with_tokens(const Variable& images, ImageTokens& tokens) const {
  std::vector<TransNextStageOutput> stages;
  ImageOutput output = run(images, {}, &stages);
  for (TransNextStageOutput& stage : stages) {
    for (Tensor& block : stage.after_blocks) tokens.after_blocks.push_back(std::move(block));
  }
  const TransNextStageOutput& last = stages.back();
  tokens.last = last.after_norm.reshape(
      {images.dim(0), last.grid->tokens.height, last.grid->tokens.width, last.after_norm.dim(2)});
  return output;
}

std::vector<TransNextStageOutput> TransNext::stage_outputs(const Variable& images,
                                                           const ForwardContext& context) const {
  std::vector<TransNextStageOutput> stages;
  run(images, context, &stages);
  return stages;
}

ImageOutput TransNext::run(const Variable& images, const ForwardContext& context,
                           std::vector<TransNextStageOutput>* stages) const {
  const MathModeScope mode(placement().math);
  require_images("transnext", images, config_.channels);
  require_per_layer("transnext", context, num_blocks(config_));
  Variable x = images;
  ImageOutput output;
  for (std::int64_t s = 0; s < config_.stages(); ++s) {
    const Stage& stage = stages_[static_cast<std::size_t>(s)];
    x = (*stage.patch_embed)(x);
    const GridSize tokens{x.dim(1), x.dim(2)};
    const std::shared_ptr<const StageGrid> grid =
        stage.grids->get(tokens, [&] { return std::make_shared<const StageGrid>(make_grid(s, tokens)); });
    const Shape image = x.shape();
    if (stages != nullptr) stages->push_back({.grid = grid});
    ResidualStream stream{reshape(x, {image[0], grid->tokens.tokens(), image[3]})};
    for (const auto& block : stage.blocks) {
      StreamOutput result =
          run_layer(config_.recompute, std::move(stream), {}, context,
                    [&block = *block, grid, context](ResidualStream in, const Variable& /*condition*/) {
                      return block.forward(std::move(in), *grid, context);
                    });
      stream = std::move(result.stream);
      if (stages != nullptr) stages->back().after_blocks.push_back(stream.sum().value());
      if (result.routing) output.routing.push_back(*std::move(result.routing));
      if (result.expert_balance.defined()) output.expert_balances.push_back(result.expert_balance);
    }
    x = std::exchange(stream, {}).normed(*stage.norm).normed;
    if (stages != nullptr) stages->back().after_norm = x.value();
    x = reshape(x, image);
  }
  output.features = reshape(adaptive_avg_pool(x, 1, 1), {x.dim(0), x.dim(3)});
  output.logits = head_(output.features);
  return output;
}

}  // namespace moh
