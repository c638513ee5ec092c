#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/layers/conv2d.h"
#include "models/layers/group_norm.h"
#include "models/layers/linear.h"
#include "models/module.h"

namespace moh {

/// Sizes of an autoencoder, with those of Stable Diffusion's as defaults; names as in diffusers' config.json.
struct AutoencoderConfig {
  std::int64_t in_channels = 3, out_channels = 3, latent_channels = 4;
  std::vector<std::int64_t> block_out_channels = {128, 256, 512, 512};
  std::int64_t layers_per_block = 2;
  std::int64_t norm_num_groups = 32;
  bool use_quant_conv = true, use_post_quant_conv = true;
  double scaling_factor = 0.18215;  ///< what latents of unit variance are multiplied by

  /// Pixels a side for one of a latent.
  std::int64_t reduction() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

/// The normal distribution of the latents of B images, independent in each element: [B, h, w, L] both.
struct LatentDistribution {
  Tensor mean;
  Tensor deviation;  ///< e^(logvar / 2), logvar cut to -30 to 20
};

/// The autoencoder of latent diffusion (Rombach et al. 2022, arXiv 2112.10752): diffusers' AutoencoderKL,
/// with its names of parameters ("encoder.down_blocks.0.resnets.0.conv1.weight"). Images and latents are
/// float32, channels last. It is run, not trained: nothing is recorded. Images are computed one after the
/// other; convolutions, norms and activations block of rows by block of rows (convolve_rows), with the
/// statistics of whole images; attention for 512 positions at a time. None of these changes a bit of the
/// result on the CPU. What is in memory as a whole are at most two feature maps, input and inner one of a
/// residual block, of which the largest of a decoder is that of block_out_channels[1] channels at the size of
/// the image.
class Autoencoder : public Module {
 public:
  /// Allocates the parameters, contents undefined: load weights. Throws ValueError for sizes that do not fit.
  Autoencoder(const AutoencoderConfig& config, Placement placement);
  ~Autoencoder() override;

  const AutoencoderConfig& config() const { return config_; }

  /// images [B, H, W, in_channels] from -1 to 1, on the CPU; H and W are multiples of reduction(). Throws
  /// ShapeError.
  LatentDistribution encode(const Tensor& images) const;
  /// latents [B, h, w, L], not scaled, on the CPU, to images [B, h reduction, w reduction, out_channels].
  /// Throws ShapeError.
  Tensor decode(const Tensor& latents) const;

  /// Bytes of a feature map that a block of rows has.
  static constexpr std::int64_t kBlockBytes = std::int64_t{32} << 20;
  /// Another size of blocks: for measurements and tests.
  void set_block_bytes(std::int64_t bytes) { block_bytes_ = bytes; }

  class Resnet;
  class Attention;
  class Middle;
  class Stage;
  class Encoder;
  class Decoder;

 private:
  Tensor run(const Tensor& images, std::int64_t channels, bool encodes) const;

  AutoencoderConfig config_;
  Placement placement_;
  std::int64_t block_bytes_ = kBlockBytes;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Conv2d> quant_conv_, post_quant_conv_;  ///< null where the config has none
};

}  // namespace moh
