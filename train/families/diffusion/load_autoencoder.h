#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "models/diffusion/autoencoder.h"

namespace moh {

/// An autoencoder, and what tells its weights from others: a hash of them (content_hash).
struct LoadedAutoencoder {
  std::unique_ptr<Autoencoder> model;
  std::string hash;
};

/// Loads an AutoencoderKL of diffusers: a folder with config.json and diffusion_pytorch_model.safetensors, as
/// the folder `vae` of a published Stable Diffusion; weights of earlier names of its attention
/// (`query`, `key`, `value`, `proj_attn`), too. Untrusted: config and tensors are compared before anything is
/// allocated. Throws CheckpointError for damaged files and tensors that are not the model's; ConfigError,
/// naming it, for an autoencoder of another kind.
LoadedAutoencoder load_autoencoder(const std::filesystem::path& folder, Placement placement);

/// One that decodes latents of `channels` channels to pictures, in float32. Throws as load_autoencoder();
/// ConfigError, naming `option`, for one of other sizes.
LoadedAutoencoder load_decoder(std::string_view option, const std::filesystem::path& folder,
                               std::int64_t channels, Device device);

}  // namespace moh
