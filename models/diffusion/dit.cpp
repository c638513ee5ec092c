#include "models/diffusion/dit.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "autograd/recompute.h"
#include "core/allocator.h"
#include "core/error.h"
#include "models/diffusion/sinusoids.h"
#include "models/late_parameters.h"
#include "models/layers/run_layer.h"
#include "ops/activation/silu.h"
#include "ops/elementwise/add.h"
#include "ops/embedding/embedding.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/norm/layer_norm.h"
#include "ops/shape/patchify.h"
#include "ops/shape/reshape.h"
#include "ops/tokens/add_positions.h"

namespace moh {

namespace {

constexpr double kEmbeddingStd = 0.02;
constexpr double kNormEps = 1e-6;
/// Rows of a block's modulation: shift, scale and gate of attention, then of the MLP.
constexpr std::int64_t kBlockRows = 6, kAttentionGate = 2, kMlpShift = 3, kMlpGate = 5, kFinalRows = 2;

DitConfig checked(const DitConfig& config) {
  require_valid(config);
  if (config.moh.shared_heads.to_be_measured())
    throw ValueError(error_message("dit", "moh.shared_heads", "first, or lists of heads",
                                   "a rule that is measured before the model is made"));
  return config;
}

std::int64_t side_in_patches(const DitConfig& c) {
  return c.image_size / c.patch_size;
}

bool starts_at_zero(const std::string& name) {
  return name.find("adaLN_modulation.") != std::string::npos || name.starts_with("final_layer.");
}

bool is_normal(const std::string& name) {
  return name.starts_with("t_embedder.") || name.starts_with("y_embedder.");
}

/// The norm whose shift is row `first` of a modulation, and its scale the next one.
struct AdaptiveNorm {
  Variable modulation;
  std::int64_t first;

  AddedAndNormed after_adding(const Variable& x, const ResidualBranch& branch) const {
    return add_layer_norm_modulate(x, branch, modulation, first, kNormEps);
  }
};

/// Half the width of Xavier's uniform distribution of a matrix [outputs, inputs...].
double xavier_bound(const Tensor& matrix) {
  const auto outputs = matrix.dim(0), inputs = matrix.numel() / outputs;
  return std::sqrt(6.0 / static_cast<double>(outputs + inputs));
}

}  // namespace

DitBlock::DitBlock(const DitConfig& c, const HeadRoutingOptions& routing, std::int64_t layer,
                   Placement placement)
    : attn_({.width = c.hidden,
             .heads = c.heads.at(layer),
             .head_dim = c.head_width(),
             .routing = routing,
             .layer = layer,
             .gate = c.attention_gate,
             .recompute = c.recompute},
            placement),
      recompute_(c.recompute),
      fc1_(c.hidden, c.mlp_ratio * c.hidden, true, placement),
      fc2_(c.mlp_ratio * c.hidden, c.hidden, true, placement),
      modulation_(c.hidden, kBlockRows * c.hidden, true, placement) {
  add_child("attn", attn_);
  add_child("mlp.fc1", fc1_);
  add_child("mlp.fc2", fc2_);
  add_child("adaLN_modulation.1", modulation_);
}

StreamOutput DitBlock::forward(ResidualStream stream, const Variable& of_samples,
                               const ForwardContext& context) const {
  // One gradient of a block, whoever reads the condition in it: recomputed blocks add theirs in the same
  // order.
  const Variable condition = reshape(of_samples, of_samples.shape());
  const Variable rows = reshape(modulation_(condition), {of_samples.dim(0), kBlockRows, of_samples.dim(1)});
  const AddedAndNormed input = std::exchange(stream, {}).normed(AdaptiveNorm{rows, 0});
  LayerOutput attention = attn_.forward(input.normed, context, condition);
  const AddedAndNormed of_mlp =
      ResidualStream{input.sum, {.value = std::move(attention.y), .modulation = rows, .gate = kAttentionGate}}
          .normed(AdaptiveNorm{rows, kMlpShift});
  Variable mlp = gelu_mlp(of_mlp.normed, fc1_.weight(), fc1_.bias(), fc2_.weight(), fc2_.bias(),
                          GeluForm::kTanh, recomputes_mlp(recompute_));
  if (recomputes_norms(recompute_)) {
    const auto again = [rows = rows.detach()](const AddedAndNormed& of, std::int64_t first) {
      return [=, sum = of.sum.detach()] { return layer_norm_modulate(sum, rows, first, kNormEps); };
    };
    recompute_when_read(input.normed, again(input, 0));
    recompute_when_read(of_mlp.normed, again(of_mlp, kMlpShift));
  }
  return {{of_mlp.sum, {.value = std::move(mlp), .modulation = rows, .gate = kMlpGate}},
          std::move(attention.routing)};
}

Dit::Dit(const DitConfig& config, Placement placement)
    : Model(placement),
      config_(checked(config)),
      time_in_(kTimeWidth, config_.hidden, true, placement),
      time_out_(config_.hidden, config_.hidden, true, placement),
      final_modulation_(config_.hidden, kFinalRows * config_.hidden, true, placement),
      final_(config_.hidden, config_.patch_size * config_.patch_size * config_.out_channels(), true,
             placement) {
  const DitConfig& c = config_;
  const std::int64_t side = side_in_patches(c);
  pos_embed_ = add_parameter("pos_embed", {1, side * side, c.hidden}, placement);
  pos_embed_.set_requires_grad(false);
  patch_weight_ =
      add_parameter("x_embedder.proj.weight", {c.hidden, c.channels, c.patch_size, c.patch_size}, placement);
  patch_bias_ = add_parameter("x_embedder.proj.bias", {c.hidden}, placement);
  add_child("t_embedder.mlp.0", time_in_);
  add_child("t_embedder.mlp.2", time_out_);
  label_table_ = add_parameter("y_embedder.embedding_table.weight", {c.classes + 1, c.hidden}, placement);
  const std::vector<HeadRoutingOptions> routing = routing_of(c);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    blocks_.push_back(std::make_unique<DitBlock>(c, routing[static_cast<std::size_t>(i)], i, placement));
    add_child("blocks." + std::to_string(i), *blocks_.back());
  }
  add_child("final_layer.linear", final_);
  add_child("final_layer.adaLN_modulation.1", final_modulation_);
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  times_ = Variable(time_embeddings(kDiffusionSteps, kTimeWidth).to(placement.dtype).to(placement.device));
}

void Dit::initialise(std::uint64_t seed) {
  fill_each(parameters(), [&](const NamedParameter& p) {
    const Tensor& value = p.variable.value();
    if (p.name == "pos_embed") {
      value.copy_from(grid_positions(side_in_patches(config_), config_.hidden).reshape(value.shape()));
    } else if (value.rank() == 1 || starts_at_zero(p.name)) {
      value.fill(0.0);
    } else if (is_normal(p.name)) {
      fill_normal(value, initialisation_key(seed, p.name), 0.0, kEmbeddingStd);
    } else {
      const double bound = xavier_bound(value);
      fill_uniform(value, initialisation_key(seed, p.name), -bound, bound);
    }
  });
  initialise_routers(*this, config_.moh.router_init);
}

double Dit::init_std() const {
  const std::vector<std::int64_t>& each = config_.heads.each;
  const std::int64_t heads = each.empty() ? config_.heads.every : std::ranges::min(each);
  return std::sqrt(2.0 / static_cast<double>(config_.hidden + heads));
}

bool Dit::decays(const NamedParameter& parameter) const {
  return is_matrix(parameter) && parameter.name != "pos_embed";
}

bool Dit::set_progress(double share) {
  bool changed = false;
  for (const auto& block : blocks_) {
    if (HeadRouter* router = block->router()) changed |= router->set_progress(share);
  }
  return changed;
}

std::vector<HeadRoutingOptions> Dit::routing() const {
  return with_learned_heads(*this, routing_of(config_));
}

std::vector<const HeadRouter*> Dit::routers() const {
  std::vector<const HeadRouter*> found;
  for (const auto& block : blocks_) found.push_back(block->router());
  return found;
}

Variable Dit::tokens_of(const Variable& images) const {
  const Variable patches = patchify(images, config_.patch_size, PatchOrder::kChannelRowColumn);
  const Variable weight = reshape(patch_weight_, {config_.hidden, -1});
  return add_positions(linear(patches, weight, patch_bias_), {}, pos_embed_);
}

/// The embeddings of the times, [B, kTimeWidth].
Variable Dit::times_of(const DitInput& input) const {
  if (input.steps.dtype() == DType::kInt64) return embedding(times_, input.steps);
  const Shape expected{input.images.dim(0), kTimeWidth};
  if (input.steps.shape() != expected)
    throw ShapeError(error_message("dit", "steps", to_string(expected), to_string(input.steps.shape())));
  return Variable(input.steps.to(dtype()));
}

/// silu(MLP(time) + label), [B, D].
Variable Dit::condition_of(const DitInput& input) const {
  const Variable time = time_out_(silu(time_in_(times_of(input))));
  return silu(add(time, embedding(label_table_, input.labels)));
}

StreamOutput Dit::run_block(const DitBlock& block, ResidualStream stream, const Variable& condition,
                            const ForwardContext& context) const {
  return run_layer(config_.recompute, std::move(stream), condition, context,
                   [&block, context](ResidualStream in, const Variable& of_samples) {
                     return block.forward(std::move(in), of_samples, context);
                   });
}

std::vector<Tensor> Dit::tokens_after_blocks(const DitInput& input) const {
  const MathModeScope mode(placement().math);
  const Variable condition = condition_of(input);
  ResidualStream stream{tokens_of(input.images)};
  std::vector<Tensor> outputs;
  for (const auto& block : blocks_) {
    stream = run_block(*block, std::move(stream), condition, {}).stream;
    outputs.push_back(stream.sum().value());
  }
  return outputs;
}

DitOutput Dit::forward(const DitInput& input, const ForwardContext& context) const {
  const MathModeScope mode(placement().math);
  const DitConfig& c = config_;
  const Shape expected{input.images.dim(0), c.channels, c.image_size, c.image_size};
  if (input.images.shape() != expected)
    throw ShapeError(error_message("dit", "images", to_string(expected), to_string(input.images.shape())));
  require_per_layer("dit", context, c.layers);
  const Variable condition = condition_of(input);
  ResidualStream stream{tokens_of(input.images)};
  DitOutput output;
  for (const auto& block : blocks_) {
    StreamOutput result = run_block(*block, std::move(stream), condition, context);
    stream = std::move(result.stream);
    if (result.routing) output.routing.push_back(*std::move(result.routing));
  }
  const Variable rows = reshape(final_modulation_(condition), {condition.dim(0), kFinalRows, c.hidden});
  output.prediction =
      unpatchify(final_(std::exchange(stream, {}).normed(AdaptiveNorm{rows, 0}).normed),
                 {c.out_channels(), c.image_size, c.image_size}, c.patch_size, PatchOrder::kRowColumnChannel);
  return output;
}

}  // namespace moh
