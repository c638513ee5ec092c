#include "ops/conv/conv2d.h"
#include "ops/dropout/drop_path.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/norm/layer_norm.h"
#include "ops/shape/patchify.h"
#include "train/bench/op_cases.h"

namespace moh::op_cases {

namespace {

constexpr std::int64_t kTokens = 256;                           // per latent in DiT
constexpr std::int64_t kShift = 0, kGate = 2, kConditions = 6;  // rows of a modulation

/// Hidden states [B, 256, 1024] and the modulation computed from their conditions, [B, 6, 1024], whose bytes
/// are too few to count.
struct Modulated {
  Tensor x, modulation;
};

Modulated modulated(Placement placement, std::int64_t bytes) {
  const Tensor x = random_items({kTokens, kWidth}, placement, bytes);
  return {x, random_tensor({x.dim(0), kConditions, kWidth}, placement, 2)};
}

StreamingCase make_layer_norm_modulate(Placement placement, std::int64_t bytes) {
  const Modulated in = modulated(placement, bytes);
  return {to_string(in.x.shape()), 2 * bytes_of(in.x), 3 * bytes_of(in.x),
          [=] { return layer_norm_modulate(input(in.x), input(in.modulation), kShift, 1e-6); }};
}

StreamingCase make_gate_residual(Placement placement, std::int64_t bytes) {
  const Modulated in = modulated(placement, bytes);
  const Tensor residual = random_tensor(in.x.shape(), placement, 3);
  // The gradient of the residual is that of the output, without a copy.
  return {to_string(in.x.shape()), 3 * bytes_of(in.x), 3 * bytes_of(in.x),
          [=] { return gate_residual(input(residual), input(in.x), input(in.modulation), kGate); }};
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

}  // namespace

std::vector<StreamingFamily> of_images() {
  constexpr std::int64_t kPhotograph = 224, kPatch = 16;  // of a ViT
  constexpr std::int64_t kNoise = 8, kLatent = 32,
                         kLatentPatch = 2;  // output of a DiT: channels, side, patch
  using Inputs = std::vector<Variable>;
  return {{"conv2d", make_conv2d},
          {"depthwise_conv2d", make_depthwise_conv2d},
          {"layer_norm_modulate", make_layer_norm_modulate},
          {"gate_residual", make_gate_residual},
          alike("drop_path", {kTokens, kWidth}, 1, 2, 2,
                [](const Inputs& in) {
                  return drop_path(in[0], 0.1, {1, 2});
                }),
          alike("patchify", {3, kPhotograph, kPhotograph}, 1, 2, 2,
                [](const Inputs& in) { return patchify(in[0], kPatch, PatchOrder::kChannelRowColumn); }),
          alike("unpatchify", {kTokens, kNoise * kLatentPatch * kLatentPatch}, 1, 2, 2, [](const Inputs& in) {
            return unpatchify(in[0], {kNoise, kLatent, kLatent}, kLatentPatch, PatchOrder::kRowColumnChannel);
          })};
}

}  // namespace moh::op_cases
