#include "models/diffusion/autoencoder.h"

#include <catch2/catch.hpp>

#include "core/dry_run.h"
#include "core/random.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kWhole = std::int64_t{1} << 50, kFewRows = 1;

/// Channels that Winograd's convolutions take, and some that they do not.
std::unique_ptr<Autoencoder> random_autoencoder() {
  const AutoencoderConfig sizes{
      .block_out_channels = {16, 48, 64}, .layers_per_block = 1, .norm_num_groups = 8};
  auto model = std::make_unique<Autoencoder>(sizes, DType::kFloat32);
  for (const NamedParameter& p : model->parameters())
    fill_normal(p.variable.value(), initialisation_key(5, p.name), 0, 0.1);
  return model;
}

Tensor noise(const Shape& shape) {
  Tensor values = empty(shape, DType::kFloat32);
  fill_normal(values, {3, 4}, 0, 1);
  return values;
}

/// Peak of the tensors that decoding a picture of this size takes by Stable Diffusion's decoder, without its
/// weights.
std::int64_t decoder_peak(std::int64_t pixels, std::int64_t block_bytes) {
  const DryRunScope dry;
  Autoencoder model({}, DType::kFloat32);
  model.set_block_bytes(block_bytes);
  const Tensor latents = empty({1, pixels / 8, pixels / 8, 4}, DType::kFloat32);
  const std::int64_t before = dry.memory()->usage(kCpu).stats.total.current_bytes;
  dry.memory()->reset_peaks();
  model.decode(latents);
  return dry.memory()->usage(kCpu).stats.total.peak_bytes - before;
}

}  // namespace

TEST_CASE("autoencoder: tiles, blocks of rows, have the bits of whole images") {
  const std::unique_ptr<Autoencoder> model = random_autoencoder();
  for (const Shape& size : {Shape{2, 36, 20, 3}, Shape{1, 4, 4, 3}, Shape{1, 40, 64, 3}}) {
    const Tensor images = noise(size), latents = noise({size[0], size[1] / 4, size[2] / 4, 4});
    model->set_block_bytes(kWhole);
    const LatentDistribution encoded = model->encode(images);
    const Tensor decoded = model->decode(latents);
    CHECK(decoded.all_finite());
    for (const std::int64_t bytes :
         {kFewRows, std::int64_t{1} << 14, std::int64_t{50'000}, Autoencoder::kBlockBytes}) {
      INFO(to_string(size) << " in blocks of " << bytes);
      model->set_block_bytes(bytes);
      const LatentDistribution again = model->encode(images);
      CHECK(same_bits(again.mean, encoded.mean));
      CHECK(same_bits(again.deviation, encoded.deviation));
      CHECK(same_bits(model->decode(latents), decoded));
    }
  }
}

TEST_CASE("autoencoder: a decoder holds two feature maps, and blocks of rows") {
  constexpr std::int64_t kBlocks = 5 * Autoencoder::kBlockBytes;
  for (const std::int64_t pixels : {512, 1024}) {
    const std::int64_t maps = pixels * pixels * (256 + 128) * 4;  // input and inner map of the last stage
    const std::int64_t tiled = decoder_peak(pixels, Autoencoder::kBlockBytes),
                       whole = decoder_peak(pixels, kWhole);
    INFO(pixels << " pixels: " << tiled / (1 << 20) << " MiB in tiles, " << whole / (1 << 20)
                << " MiB whole");
    CHECK(tiled >= maps);
    CHECK(tiled < maps + kBlocks);
    CHECK(whole > 2 * tiled - kBlocks);
  }
}
