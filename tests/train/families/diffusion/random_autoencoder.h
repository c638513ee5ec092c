#pragma once

#include <memory>

#include "core/random.h"
#include "train/families/diffusion/load_autoencoder.h"

namespace moh::test {

/// A tiny autoencoder with random weights, which halves images. Its latents have 4 channels.
inline LoadedAutoencoder random_autoencoder(std::uint64_t seed = 5) {
  const AutoencoderConfig sizes{.block_out_channels = {4, 8}, .layers_per_block = 1, .norm_num_groups = 2};
  auto model = std::make_unique<Autoencoder>(sizes, DType::kFloat32);
  for (const NamedParameter& p : model->parameters())
    fill_normal(p.variable.value(), initialisation_key(seed, p.name), 0, 0.2);
  return {std::move(model), "hash of weights " + std::to_string(seed)};
}

}  // namespace moh::test
