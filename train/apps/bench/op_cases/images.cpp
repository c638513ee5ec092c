#include "ops/conv/conv2d.h"
#include "ops/conv/conv_glu.h"
#include "ops/dropout/drop_path.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/loss/diffusion_loss.h"
#include "ops/moh/add_expert.h"
#include "ops/norm/group_norm.h"
#include "ops/norm/layer_norm.h"
#include "ops/pool/adaptive_avg_pool.h"
#include "ops/shape/patchify.h"
#include "ops/tokens/add_positions.h"
#include "train/apps/bench/op_cases.h"

namespace moh::op_cases {

namespace {

constexpr std::int64_t kLatentTokens = 256;                     // per latent in DiT
constexpr std::int64_t kShift = 0, kGate = 2, kConditions = 6;  // rows of a modulation

/// Hidden states [B, 256, 1024] and the modulation computed from their conditions, [B, 6, 1024], whose bytes
/// are too few to count.
struct Modulated {
  Tensor x, modulation;
};

Modulated modulated(Placement placement, std::int64_t bytes) {
  const Tensor x = random_items({kLatentTokens, kWidth}, placement, bytes);
  return {x, random_tensor({x.dim(0), kConditions, kWidth}, placement, 2)};
}

StreamingCase make_layer_norm_modulate(Placement placement, std::int64_t bytes) {
  const Modulated in = modulated(placement, bytes);
  return {to_string(in.x.shape()), 2 * bytes_of(in.x), 3 * bytes_of(in.x),
          [=] { return layer_norm_modulate(input(in.x), input(in.modulation), kShift, 1e-6); }};
}

/// The branch with its gates in the same modulation. Backward reads the gradients of both results, the sum
/// and the branch, and writes the gradients of x and of the branch.
StreamingCase make_add_layer_norm_modulate(Placement placement, std::int64_t bytes) {
  const Modulated in = modulated(placement, bytes);
  const Tensor branch = random_tensor(in.x.shape(), placement, 3);
  return {to_string(in.x.shape()), 4 * bytes_of(in.x), 6 * bytes_of(in.x), [=] {
            const Variable rows = input(in.modulation);
            const AddedAndNormed y = add_layer_norm_modulate(
                input(in.x), {.value = input(branch), .modulation = rows, .gate = kGate}, rows, kShift, 1e-6);
            return std::vector{y.sum, y.normed};
          }};
}

/// Images of an autoencoder, [B, 64, 64, 128], in 32 groups.
StreamingCase make_group_norm(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kSide = 64, kChannels = 128, kGroups = 32;
  const Tensor x = random_items({kSide, kSide, kChannels}, placement, bytes);
  const Tensor w = full({kChannels}, 1.0, placement.dtype, placement.device), b = zeros_like(w);
  return {to_string(x.shape()), 2 * bytes_of(x), 3 * bytes_of(x),
          [=] { return group_norm(input(x), input(w), input(b), kGroups, 1e-6); }};
}

StreamingCase make_gate_residual(Placement placement, std::int64_t bytes) {
  const Modulated in = modulated(placement, bytes);
  const Tensor residual = random_tensor(in.x.shape(), placement, 3);
  // The gradient of the residual is that of the output, without a copy.
  return {to_string(in.x.shape()), 3 * bytes_of(in.x), 3 * bytes_of(in.x),
          [=] { return gate_residual(input(residual), input(in.x), input(in.modulation), kGate); }};
}

/// The loss of DiT on latents, [B, 4, 32, 32], which reads predictions of noise and variance and three more
/// numbers of each element.
StreamingCase make_diffusion_loss(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kChannels = 4, kSide = 32;
  const Tensor prediction = random_items({2 * kChannels, kSide, kSide}, placement, bytes);
  const std::int64_t samples = prediction.dim(0);
  const auto of_each = [&](int seed) {
    return random_tensor({samples, kChannels, kSide, kSide}, {DType::kFloat32, placement.device}, seed);
  };
  const DiffusionTargets targets{of_each(2), of_each(3), of_each(4),
                                 zeros({samples, kDiffusionFactors}, DType::kFloat32, placement.device)};
  const double read = bytes_of(prediction) + 3 * bytes_of(targets.start);
  return {to_string(prediction.shape()), read, read + bytes_of(prediction),
          [=] { return diffusion_loss(input(prediction), targets).loss; }};
}

/// A convolution of square images [side, side, channels].
struct ConvSizes {
  std::int64_t side, channels, outputs, kernel;
  Conv2dOptions options;
};

StreamingCase make_convolution(const ConvSizes& sizes, Placement placement, std::int64_t bytes) {
  const Tensor x = random_items({sizes.side, sizes.side, sizes.channels}, placement, bytes);
  const Tensor w = random_tensor(
      {sizes.outputs, sizes.channels / sizes.options.groups, sizes.kernel, sizes.kernel}, placement, 2);
  const auto run = [=, options = sizes.options] { return conv2d(input(x), input(w), {}, options); };
  // Backward reads dy twice, for both gradients, and x, and writes dx; weights are small.
  const double both = bytes_of(x) + bytes_of(run().value());
  return {to_string(x.shape()) + " * " + to_string(w.shape()), both, 2 * both, run};
}

/// The first patch embedding of TransNeXt-Tiny, which is compute-bound.
StreamingCase make_conv2d(Placement placement, std::int64_t bytes) {
  return make_convolution({224, 3, 72, 7, {.stride = 4, .padding = 3}}, placement, bytes);
}
/// The depthwise convolution in the MLPs of the third stage of TransNeXt-Tiny.
StreamingCase make_depthwise_conv2d(Placement placement, std::int64_t bytes) {
  return make_convolution({14, 768, 768, 3, {.padding = 1, .groups = 768}}, placement, bytes);
}

/// ConvGLU of the third stage of TransNeXt-Tiny: reads h and writes y, and the pre-activation for the
/// backward pass, which reads dy, h and it, writes dh and its gradient, and reads h and this for the
/// weights'.
StreamingCase make_conv_glu(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kSide = 14, kHidden = 768;
  const Tensor h = random_items({kSide, kSide, 2 * kHidden}, placement, bytes);
  const Tensor w = random_tensor({kHidden, 1, 3, 3}, placement, 2),
               b = random_tensor({kHidden}, placement, 3);
  return {to_string(h.shape()), 2 * bytes_of(h), 5 * bytes_of(h),
          [=] { return conv_glu(input(h), input(w), input(b)); }};
}

/// The pooled tokens of the third stage of TransNeXt-Tiny.
StreamingCase make_adaptive_avg_pool(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kSide = 14, kCells = 7, kChannels = 288;
  const Tensor x = random_items({kSide, kSide, kChannels}, placement, bytes);
  return {to_string(x.shape()), 1.25 * bytes_of(x), 1.25 * bytes_of(x),
          [=] { return adaptive_avg_pool(input(x), kCells, kCells); }};
}

/// The tokens of DeiT-S.
StreamingCase make_add_positions(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kPatches = 196, kHidden = 384;
  const Tensor x = random_items({kPatches, kHidden}, placement, bytes);
  const Tensor token = random_tensor({1, 1, kHidden}, placement, 2);
  const Tensor positions = random_tensor({1, kPatches + 1, kHidden}, placement, 3);
  return {to_string(x.shape()), 2 * bytes_of(x), 3 * bytes_of(x),
          [=] { return add_positions(input(x), input(token), input(positions)); }};
}

/// Half of the tokens take the expert.
StreamingCase make_add_expert(Placement placement, std::int64_t bytes) {
  const Tensor output = random_items({kWidth}, placement, bytes),
               sum = random_tensor(output.shape(), placement, 2);
  const Tensor on_host = zeros({output.dim(0), 2}, DType::kFloat32);
  for (std::int64_t i = 0; i < output.dim(0); ++i) on_host.data<float>()[2 * i + i % 2] = 1.0F;
  const Tensor gates = on_host.to(placement.device);
  return {to_string(output.shape()), 2.5 * bytes_of(output), 2 * bytes_of(output),
          [=] { return add_expert(input(sum), input(output), Variable(gates), 0); }};
}

}  // namespace

std::vector<StreamingFamily> of_images() {
  constexpr std::int64_t kPhotograph = 224, kPatch = 16;  // of a ViT
  constexpr std::int64_t kNoise = 8, kLatent = 32,
                         kLatentPatch = 2;  // output of a DiT: channels, side, patch
  using Inputs = std::vector<Variable>;
  return {
      {"conv2d", make_conv2d},
      {"depthwise_conv2d", make_depthwise_conv2d},
      {"layer_norm_modulate", make_layer_norm_modulate},
      {"add_layer_norm_modulate", make_add_layer_norm_modulate},
      {"group_norm", make_group_norm},
      {"gate_residual", make_gate_residual},
      {"diffusion_loss", make_diffusion_loss},
      {"conv_glu", make_conv_glu},
      {"adaptive_avg_pool", make_adaptive_avg_pool},
      {"add_positions", make_add_positions},
      {"add_expert", make_add_expert},
      alike("drop_path", {kLatentTokens, kWidth}, 1, 2, 2,
            [](const Inputs& in) {
              return drop_path(in[0], 0.1, {1, 2});
            }),
      alike("add_drop_path", {kLatentTokens, kWidth}, 2, 3, 2,
            [](const Inputs& in) {
              return add_drop_path(in[0], in[1], 0.1, {1, 2});
            }),
      alike("patchify", {3, kPhotograph, kPhotograph}, 1, 2, 2,
            [](const Inputs& in) { return patchify(in[0], kPatch, PatchOrder::kChannelRowColumn); }),
      alike(
          "unpatchify", {kLatentTokens, kNoise * kLatentPatch * kLatentPatch}, 1, 2, 2, [](const Inputs& in) {
            return unpatchify(in[0], {kNoise, kLatent, kLatent}, kLatentPatch, PatchOrder::kRowColumnChannel);
          })};
}

}  // namespace moh::op_cases
