#include "ops/conv/conv2d.h"
#include "ops/dropout/drop_path.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/norm/layer_norm.h"
#include "ops/shape/patchify.h"
#include "train/bench/op_cases/families.h"
#include "train/bench/op_cases/parts.h"

namespace moh::op_cases {

namespace {

constexpr std::int64_t kTokens = 256;                           // of a latent in DiT
constexpr std::int64_t kShift = 0, kGate = 2, kConditions = 6;  // rows of a modulation

/// Hidden states [B, 256, 1024] and what their conditions' layer gave, [B, 6, 1024], which is too small to
/// count.
struct Modulated {
  Tensor x, modulation;
};

Modulated modulated(Placement placement, std::int64_t bytes) {
  const std::int64_t batch = count_for(placement.dtype, bytes, kTokens * kWidth);
  return {random_tensor({batch, kTokens, kWidth}, placement, 1),
          random_tensor({batch, kConditions, kWidth}, placement, 2)};
}

StreamingCase make_layer_norm_modulate(Placement placement, std::int64_t bytes) {
  const auto [x, modulation] = modulated(placement, bytes);
  const double one = bytes_of(x);
  return {.shape = to_string(x.shape()),
          .forward_bytes = 2 * one,
          .backward_bytes = 3 * one,
          .forward =
              [x = x, modulation = modulation] {
                return std::vector{layer_norm_modulate(input(x), input(modulation), kShift, 1e-6)};
              },
          .seeds = {random_tensor(x.shape(), placement, 3)}};
}

StreamingCase make_gate_residual(Placement placement, std::int64_t bytes) {
  const auto [x, modulation] = modulated(placement, bytes);
  const Tensor residual = random_tensor(x.shape(), placement, 3);
  const double one = bytes_of(x);
  // Backward hands the gradient of the residual on as it is.
  return {.shape = to_string(x.shape()),
          .forward_bytes = 3 * one,
          .backward_bytes = 3 * one,
          .forward =
              [x = x, modulation = modulation, residual] {
                return std::vector{gate_residual(input(residual), input(x), input(modulation), kGate)};
              },
          .seeds = {random_tensor(x.shape(), placement, 4)}};
}

StreamingCase make_drop_path(Placement placement, std::int64_t bytes) {
  const Tensor x = modulated(placement, bytes).x;
  const double moved = 2 * bytes_of(x);
  return {.shape = to_string(x.shape()),
          .forward_bytes = moved,
          .backward_bytes = moved,
          .forward =
              [=] {
                return std::vector{drop_path(input(x), 0.1, {1, 2})};
              },
          .seeds = {random_tensor(x.shape(), placement, 2)}};
}

/// The photographs of a ViT.
StreamingCase make_patchify(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kChannels = 3, kSide = 224, kPatch = 16, kGrid = kSide / kPatch;
  const std::int64_t batch = count_for(placement.dtype, bytes, kChannels * kSide * kSide);
  const Tensor images = random_tensor({batch, kChannels, kSide, kSide}, placement, 1);
  const double moved = 2 * bytes_of(images);
  return {
      .shape = to_string(images.shape()),
      .forward_bytes = moved,
      .backward_bytes = moved,
      .forward = [=] { return std::vector{patchify(input(images), kPatch, PatchOrder::kChannelRowColumn)}; },
      .seeds = {random_tensor({batch, kGrid * kGrid, kChannels * kPatch * kPatch}, placement, 2)}};
}

/// The outputs of a DiT, noise and variance of latents.
StreamingCase make_unpatchify(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kChannels = 8, kSide = 32, kPatch = 2, kElements = kChannels * kSide * kSide;
  const std::int64_t batch = count_for(placement.dtype, bytes, kElements);
  const Tensor patches = random_tensor({batch, kTokens, kElements / kTokens}, placement, 1);
  const double moved = 2 * bytes_of(patches);
  return {.shape = to_string(patches.shape()),
          .forward_bytes = moved,
          .backward_bytes = moved,
          .forward =
              [=] {
                return std::vector{unpatchify(input(patches), {kChannels, kSide, kSide}, kPatch,
                                              PatchOrder::kRowColumnChannel)};
              },
          .seeds = {random_tensor({batch, kChannels, kSide, kSide}, placement, 2)}};
}

/// A convolution of square images [side, side, channels].
struct ConvSizes {
  std::int64_t side, channels, outputs, kernel;
  Conv2dOptions options;
};

StreamingCase make_convolution(const ConvSizes& sizes, Placement placement, std::int64_t bytes) {
  const std::int64_t batch = count_for(placement.dtype, bytes, sizes.side * sizes.side * sizes.channels);
  const Tensor x = random_tensor({batch, sizes.side, sizes.side, sizes.channels}, placement, 1);
  const Tensor w = random_tensor(
      {sizes.outputs, sizes.channels / sizes.options.groups, sizes.kernel, sizes.kernel}, placement, 2);
  const auto run = [=, options = sizes.options] {
    return std::vector{conv2d(input(x), input(w), {}, options)};
  };
  const Tensor dy = random_tensor(run().front().shape(), placement, 3);
  // Backward reads dy twice, for both gradients, and x, and writes dx; weights are small.
  const double both = bytes_of(x) + bytes_of(dy);
  return {.shape = to_string(x.shape()) + " * " + to_string(w.shape()),
          .forward_bytes = both,
          .backward_bytes = 2 * both,
          .forward = run,
          .seeds = {dy}};
}

/// The first patches of TransNeXt-Tiny, which are more arithmetic than memory.
StreamingCase make_conv2d(Placement placement, std::int64_t bytes) {
  return make_convolution({224, 3, 72, 7, {.stride = 4, .padding = 3}}, placement, bytes);
}
/// The convolution in the MLPs of its third stage.
StreamingCase make_depthwise_conv2d(Placement placement, std::int64_t bytes) {
  return make_convolution({14, 768, 768, 3, {.padding = 1, .groups = 768}}, placement, bytes);
}

}  // namespace

std::vector<StreamingFamily> of_images() {
  return {family("conv2d", make_conv2d),
          family("depthwise_conv2d", make_depthwise_conv2d),
          family("layer_norm_modulate", make_layer_norm_modulate),
          family("gate_residual", make_gate_residual),
          family("drop_path", make_drop_path),
          family("patchify", make_patchify),
          family("unpatchify", make_unpatchify)};
}

}  // namespace moh::op_cases
