#include "models/diffusion/autoencoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/activation/silu.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/matmul.h"
#include "ops/shape/repeat_heads.h"
#include "ops/shape/reshape.h"
#include "ops/softmax/softmax.h"

namespace moh {

namespace {

constexpr double kEps = 1e-6;
constexpr std::int64_t kAttentionRows = 512;  // positions whose scores are held
const Conv2dOptions same_size = {.padding = 1};

/// Twice as many rows and columns, each pixel four times.
Variable upsampled(const Variable& x) {
  const Shape& s = x.shape();
  const Variable wide = repeat_heads(x, 0, 2);
  const Variable rows = reshape(wide, {s[0], 1, s[1], 2 * s[2] * s[3]});
  return reshape(repeat_heads(rows, 0, 2), {s[0], 2 * s[1], 2 * s[2], s[3]});
}

/// The kernel [O, C, 3, 3] with a row and a column of zeros before it: with stride 2 and padding 1 it sees
/// what the kernel sees of an image that is padded by a row below and a column to the right alone.
Variable for_padding_behind(const Variable& weight) {
  const Tensor from = weight.value().to(kCpu).to(DType::kFloat32);
  const Tensor to = zeros({from.dim(0), from.dim(1), 4, 4}, DType::kFloat32);
  for (std::int64_t i = 0; i < from.numel(); ++i)
    to.data<float>()[i / 9 * 16 + (i % 9 / 3 + 1) * 4 + i % 3 + 1] = from.data<float>()[i];
  return Variable(to.to(weight.dtype()).to(weight.device()));
}

AutoencoderConfig checked(const AutoencoderConfig& c) {
  const auto refuse = [](const char* what, const std::string& expected, std::int64_t found) {
    throw ValueError(error_message("autoencoder", what, expected, std::to_string(found)));
  };
  if (c.block_out_channels.empty()) refuse("block_out_channels", "one number or more", 0);
  for (const std::int64_t channels : c.block_out_channels) {
    if (channels < 1 || c.norm_num_groups < 1 || channels % c.norm_num_groups != 0)
      refuse("block_out_channels", "multiples of norm_num_groups, " + std::to_string(c.norm_num_groups),
             channels);
  }
  return c;
}

}  // namespace

/// x + conv2(silu(norm2(conv1(silu(norm1(x)))))), with x through a 1 x 1 convolution where channels change.
class Autoencoder::Resnet : public Module {
 public:
  Resnet(std::int64_t in, std::int64_t out, std::int64_t groups, Placement placement)
      : norm1_(in, groups, kEps, placement),
        conv1_(in, out, 3, same_size, placement),
        norm2_(out, groups, kEps, placement),
        conv2_(out, out, 3, same_size, placement) {
    add_child("norm1", norm1_);
    add_child("conv1", conv1_);
    add_child("norm2", norm2_);
    add_child("conv2", conv2_);
    if (in == out) return;
    shortcut_ = std::make_unique<Conv2d>(in, out, 1, Conv2dOptions(), placement);
    add_child("conv_shortcut", *shortcut_);
  }

  Variable operator()(const Variable& x) const {
    const Variable y = conv2_(silu(norm2_(conv1_(silu(norm1_(x))))));
    return add(shortcut_ == nullptr ? x : (*shortcut_)(x), y);
  }

 private:
  GroupNorm norm1_;
  Conv2d conv1_;
  GroupNorm norm2_;
  Conv2d conv2_;
  std::unique_ptr<Conv2d> shortcut_;
};

/// x + attention of one head over all positions of group_norm(x).
class Autoencoder::Attention : public Module {
 public:
  Attention(std::int64_t channels, std::int64_t groups, Placement placement)
      : group_norm_(channels, groups, kEps, placement),
        to_q_(channels, channels, true, placement),
        to_k_(channels, channels, true, placement),
        to_v_(channels, channels, true, placement),
        to_out_(channels, channels, true, placement) {
    add_child("group_norm", group_norm_);
    add_child("to_q", to_q_);
    add_child("to_k", to_k_);
    add_child("to_v", to_v_);
    add_child("to_out.0", to_out_);
  }

  /// x [1, H, W, C].
  Variable operator()(const Variable& x) const {
    const std::int64_t channels = x.dim(3), positions = x.dim(1) * x.dim(2);
    const Variable h = reshape(group_norm_(x), {positions, channels});
    const Tensor q = scale(to_q_(h), 1 / std::sqrt(static_cast<double>(channels))).value();
    const Tensor k = to_k_(h).value(), v = to_v_(h).value();
    Tensor mixed = empty_like(q);
    for (std::int64_t first = 0; first < positions; first += kAttentionRows) {
      const std::int64_t last = std::min(first + kAttentionRows, positions);
      const Tensor scores = matmul(q.slice(first, last), transposed(k), q.dtype());
      matmul_into(mixed.slice(first, last), softmax(Variable(scores)).value(), v);
    }
    return add(x, reshape(to_out_(Variable(mixed)), x.shape()));
  }

 private:
  GroupNorm group_norm_;
  Linear to_q_, to_k_, to_v_, to_out_;
};

class Autoencoder::Middle : public Module {
 public:
  Middle(std::int64_t channels, std::int64_t groups, Placement placement)
      : first_(channels, channels, groups, placement),
        attention_(channels, groups, placement),
        last_(channels, channels, groups, placement) {
    add_child("resnets.0", first_);
    add_child("attentions.0", attention_);
    add_child("resnets.1", last_);
  }

  Variable operator()(const Variable& x) const { return last_(attention_(first_(x))); }

 private:
  Resnet first_;
  Attention attention_;
  Resnet last_;
};

/// Resnets of one resolution, and what leads to the next one: a convolution of stride 2 down, of an image
/// that has been doubled up, or nothing.
class Autoencoder::Stage : public Module {
 public:
  enum class Then : std::uint8_t { kStay, kDown, kUp };

  Stage(std::int64_t in, std::int64_t out, std::int64_t layers, Then then, std::int64_t groups,
        Placement placement)
      : then_(then) {
    for (std::int64_t i = 0; i < layers; ++i) {
      resnets_.push_back(std::make_unique<Resnet>(i == 0 ? in : out, out, groups, placement));
      add_child("resnets." + std::to_string(i), *resnets_.back());
    }
    if (then == Then::kStay) return;
    next_ = std::make_unique<Conv2d>(out, out, 3, same_size, placement);
    add_child(then == Then::kDown ? "downsamplers.0.conv" : "upsamplers.0.conv", *next_);
  }

  Variable operator()(Variable x) const {
    for (const auto& resnet : resnets_) x = (*resnet)(x);
    if (then_ == Then::kStay) return x;
    if (then_ == Then::kUp) return (*next_)(upsampled(x));
    return conv2d(x, for_padding_behind(next_->weight()), next_->bias(), {.stride = 2, .padding = 1});
  }

 private:
  Then then_;
  std::vector<std::unique_ptr<Resnet>> resnets_;
  std::unique_ptr<Conv2d> next_;
};

class Autoencoder::Encoder : public Module {
 public:
  Encoder(const AutoencoderConfig& c, Placement placement)
      : conv_in_(c.in_channels, c.block_out_channels.front(), 3, same_size, placement),
        middle_(c.block_out_channels.back(), c.norm_num_groups, placement),
        norm_(c.block_out_channels.back(), c.norm_num_groups, kEps, placement),
        conv_out_(c.block_out_channels.back(), 2 * c.latent_channels, 3, same_size, placement) {
    add_child("conv_in", conv_in_);
    std::int64_t channels = c.block_out_channels.front();
    for (std::size_t i = 0; i < c.block_out_channels.size(); ++i) {
      const bool last = i + 1 == c.block_out_channels.size();
      stages_.push_back(std::make_unique<Stage>(channels, c.block_out_channels[i], c.layers_per_block,
                                                last ? Stage::Then::kStay : Stage::Then::kDown,
                                                c.norm_num_groups, placement));
      channels = c.block_out_channels[i];
      add_child("down_blocks." + std::to_string(i), *stages_.back());
    }
    add_child("mid_block", middle_);
    add_child("conv_norm_out", norm_);
    add_child("conv_out", conv_out_);
  }

  Variable operator()(const Variable& image) const {
    Variable x = conv_in_(image);
    for (const auto& stage : stages_) x = (*stage)(std::move(x));
    return conv_out_(silu(norm_(middle_(x))));
  }

 private:
  Conv2d conv_in_;
  std::vector<std::unique_ptr<Stage>> stages_;
  Middle middle_;
  GroupNorm norm_;
  Conv2d conv_out_;
};

class Autoencoder::Decoder : public Module {
 public:
  Decoder(const AutoencoderConfig& c, Placement placement)
      : conv_in_(c.latent_channels, c.block_out_channels.back(), 3, same_size, placement),
        middle_(c.block_out_channels.back(), c.norm_num_groups, placement),
        norm_(c.block_out_channels.front(), c.norm_num_groups, kEps, placement),
        conv_out_(c.block_out_channels.front(), c.out_channels, 3, same_size, placement) {
    add_child("conv_in", conv_in_);
    std::int64_t channels = c.block_out_channels.back();
    for (std::size_t i = 0; i < c.block_out_channels.size(); ++i) {
      const std::size_t level = c.block_out_channels.size() - 1 - i;
      stages_.push_back(std::make_unique<Stage>(channels, c.block_out_channels[level], c.layers_per_block + 1,
                                                level == 0 ? Stage::Then::kStay : Stage::Then::kUp,
                                                c.norm_num_groups, placement));
      channels = c.block_out_channels[level];
      add_child("up_blocks." + std::to_string(i), *stages_.back());
    }
    add_child("mid_block", middle_);
    add_child("conv_norm_out", norm_);
    add_child("conv_out", conv_out_);
  }

  Variable operator()(const Variable& latent) const {
    Variable x = middle_(conv_in_(latent));
    for (const auto& stage : stages_) x = (*stage)(std::move(x));
    return conv_out_(silu(norm_(x)));
  }

 private:
  Conv2d conv_in_;
  Middle middle_;
  std::vector<std::unique_ptr<Stage>> stages_;
  GroupNorm norm_;
  Conv2d conv_out_;
};

Autoencoder::Autoencoder(const AutoencoderConfig& config, Placement placement)
    : config_(checked(config)),
      placement_(placement),
      encoder_(std::make_unique<Encoder>(config_, placement)),
      decoder_(std::make_unique<Decoder>(config_, placement)) {
  add_child("encoder", *encoder_);
  add_child("decoder", *decoder_);
  const std::int64_t latent = config_.latent_channels;
  if (config_.use_quant_conv) {
    quant_conv_ = std::make_unique<Conv2d>(2 * latent, 2 * latent, 1, Conv2dOptions(), placement);
    add_child("quant_conv", *quant_conv_);
  }
  if (config_.use_post_quant_conv) {
    post_quant_conv_ = std::make_unique<Conv2d>(latent, latent, 1, Conv2dOptions(), placement);
    add_child("post_quant_conv", *post_quant_conv_);
  }
}

Autoencoder::~Autoencoder() = default;

/// Image after image through one half of it.
Tensor Autoencoder::run(const Tensor& images, std::int64_t channels, bool encodes) const {
  const NoGrad no_grad;
  const MathModeScope mode(placement_.math);
  if (images.rank() != 4 || images.dim(3) != channels)
    throw ShapeError(error_message("autoencoder", encodes ? "images" : "latents",
                                   "[B, H, W, " + std::to_string(channels) + "]", to_string(images.shape())));
  const std::int64_t side = config_.reduction();
  if (encodes && (images.dim(1) % side != 0 || images.dim(2) % side != 0))
    throw ShapeError(error_message("autoencoder", "images",
                                   "sides that are multiples of " + std::to_string(side),
                                   to_string(images.shape())));
  Tensor result;
  for (std::int64_t i = 0; i < images.dim(0); ++i) {
    Variable x(images.slice(i, i + 1).to(placement_.dtype).to(placement_.device));
    if (encodes) {
      x = (*encoder_)(x);
      if (quant_conv_ != nullptr) x = (*quant_conv_)(x);
    } else {
      if (post_quant_conv_ != nullptr) x = (*post_quant_conv_)(x);
      x = (*decoder_)(x);
    }
    const Tensor made = x.value().to(kCpu).to(DType::kFloat32);
    if (!result.defined())
      result = empty({images.dim(0), made.dim(1), made.dim(2), made.dim(3)}, DType::kFloat32);
    result.slice(i, i + 1).copy_from(made);
  }
  return result;
}

LatentDistribution Autoencoder::encode(const Tensor& images) const {
  constexpr float kLeast = -30, kMost = 20;
  const Tensor both = run(images, config_.in_channels, /*encodes=*/true);
  const std::int64_t channels = config_.latent_channels;
  LatentDistribution latents{empty({both.dim(0), both.dim(1), both.dim(2), channels}, DType::kFloat32), {}};
  latents.deviation = empty_like(latents.mean);
  for (std::int64_t i = 0; i < latents.mean.numel(); ++i) {
    const float* of_pixel = both.data<float>() + i / channels * 2 * channels + i % channels;
    latents.mean.data<float>()[i] = of_pixel[0];
    latents.deviation.data<float>()[i] = std::exp(0.5F * std::clamp(of_pixel[channels], kLeast, kMost));
  }
  return latents;
}

Tensor Autoencoder::decode(const Tensor& latents) const {
  return run(latents, config_.latent_channels, /*encodes=*/false);
}

}  // namespace moh
