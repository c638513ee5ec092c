#include "models/diffusion/autoencoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/node.h"
#include "core/error.h"
#include "models/diffusion/row_convolution.h"
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
Tensor upsampled(const Tensor& x) {
  const Shape& s = x.shape();
  const Variable wide = repeat_heads(Variable(x), 0, 2);
  const Variable rows = reshape(wide, {s[0], 1, s[1], 2 * s[2] * s[3]});
  return reshape(repeat_heads(rows, 0, 2), {s[0], 2 * s[1], 2 * s[2], s[3]}).value();
}

/// All rows of a convolution of an image.
Tensor convolved(const Conv2d& conv, const RowSource& image, RowStride stride, std::int64_t block_bytes) {
  const std::int64_t step = stride == RowStride::kTwo ? 2 : 1;
  Tensor y;
  convolve_rows(
      conv, image, stride, block_bytes, [&](std::int64_t first, std::int64_t last, const Tensor& rows) {
        if (!y.defined())
          y = empty({1, image.height / step, image.width / step, rows.dim(3)}, rows.dtype(), rows.device());
        rows_of(y, first, last).copy_from(rows);
      });
  return y;
}

/// The rows of an image that is there.
RowSource source_of(const Tensor& x, FunctionRef<Tensor(std::int64_t, std::int64_t)> rows) {
  return {x.dim(1), x.dim(2), x.dim(3), rows};
}

Tensor convolved(const Conv2d& conv, const Tensor& x, RowStride stride, std::int64_t block_bytes) {
  const auto rows = [&](std::int64_t first, std::int64_t last) { return rows_of(x, first, last); };
  return convolved(conv, source_of(x, rows), stride, block_bytes);
}

/// The convolution of an image that has been doubled: of which only the rows of a block are made.
Tensor convolved_upsampled(const Conv2d& conv, const Tensor& x, std::int64_t block_bytes) {
  const auto rows = [&](std::int64_t first, std::int64_t last) {
    const std::int64_t from = first / 2;
    return rows_of(upsampled(rows_of(x, from, (last + 1) / 2)), first - 2 * from, last - 2 * from);
  };
  return convolved(conv, {2 * x.dim(1), 2 * x.dim(2), x.dim(3), rows}, RowStride::kOne, block_bytes);
}

/// conv(silu(norm(x))), of which only the rows of a block are made at a time: each is passed to `take`.
void convolve_normalised(const Conv2d& conv, const GroupNorm& norm, const Tensor& x, std::int64_t block_bytes,
                         FunctionRef<void(std::int64_t, std::int64_t, const Tensor&)> take) {
  const GroupStatistics statistics = norm.statistics(x);
  const auto rows = [&](std::int64_t first, std::int64_t last) {
    return silu(Variable(norm.rows(rows_of(x, first, last), statistics))).value();
  };
  convolve_rows(conv, source_of(x, rows), RowStride::kOne, block_bytes, take);
}

Tensor convolved_normalised(const Conv2d& conv, const GroupNorm& norm, const Tensor& x,
                            std::int64_t block_bytes) {
  Tensor y = empty({1, x.dim(1), x.dim(2), conv.weight().dim(0)}, x.dtype(), x.device());
  convolve_normalised(conv, norm, x, block_bytes,
                      [&](std::int64_t first, std::int64_t last, const Tensor& rows) {
                        rows_of(y, first, last).copy_from(rows);
                      });
  return y;
}

/// The first elements of the memory of `x`, in another shape.
Tensor front_of(const Tensor& x, const Shape& shape) {
  return x.reshape({x.numel()}).slice(0, shape.numel()).reshape(shape);
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

  /// The result takes the memory of x, which is lost, where it needs no more.
  Tensor operator()(const Tensor& x, std::int64_t block_bytes) const {
    const Tensor h = convolved_normalised(conv1_, norm1_, x, block_bytes);
    // A row is written when it, and with fewer channels all rows before it, were read.
    Tensor y = h.dim(3) > x.dim(3) ? empty_like(h) : front_of(x, h.shape());
    convolve_normalised(conv2_, norm2_, h, block_bytes,
                        [&](std::int64_t first, std::int64_t last, const Tensor& rows) {
                          Variable straight(rows_of(x, first, last));
                          if (shortcut_ != nullptr) straight = (*shortcut_)(straight);
                          rows_of(y, first, last).copy_from(add(straight, Variable(rows)).value());
                        });
    return y;
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
  Tensor operator()(const Tensor& x) const {
    const std::int64_t channels = x.dim(3), positions = x.dim(1) * x.dim(2);
    const Variable h = reshape(group_norm_(Variable(x)), {positions, channels});
    const Tensor q = scale(to_q_(h), 1 / std::sqrt(static_cast<double>(channels))).value();
    const Tensor k = to_k_(h).value(), v = to_v_(h).value();
    Tensor mixed = empty_like(q);
    for (std::int64_t first = 0; first < positions; first += kAttentionRows) {
      const std::int64_t last = std::min(first + kAttentionRows, positions);
      const Tensor scores = matmul(q.slice(first, last), transposed(k), q.dtype());
      matmul_into(mixed.slice(first, last), softmax(Variable(scores)).value(), v);
    }
    return add(Variable(x), reshape(to_out_(Variable(mixed)), x.shape())).value();
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

  Tensor operator()(const Tensor& x, std::int64_t block_bytes) const {
    return last_(attention_(first_(x, block_bytes)), block_bytes);
  }

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

  Tensor operator()(Tensor x, std::int64_t block_bytes) const {
    for (const auto& resnet : resnets_) x = (*resnet)(x, block_bytes);
    if (then_ == Then::kStay) return x;
    if (then_ == Then::kUp) return convolved_upsampled(*next_, x, block_bytes);
    return convolved(*next_, x, RowStride::kTwo, block_bytes);
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

  Tensor operator()(const Tensor& image, std::int64_t block_bytes) const {
    Tensor x = convolved(conv_in_, image, RowStride::kOne, block_bytes);
    for (const auto& stage : stages_) x = (*stage)(std::move(x), block_bytes);
    return convolved_normalised(conv_out_, norm_, middle_(x, block_bytes), block_bytes);
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

  Tensor operator()(const Tensor& latent, std::int64_t block_bytes) const {
    Tensor x = middle_(convolved(conv_in_, latent, RowStride::kOne, block_bytes), block_bytes);
    for (const auto& stage : stages_) x = (*stage)(std::move(x), block_bytes);
    return convolved_normalised(conv_out_, norm_, x, block_bytes);
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
    Tensor x = images.slice(i, i + 1).to(placement_.dtype).to(placement_.device);
    if (encodes) {
      x = (*encoder_)(x, block_bytes_);
      if (quant_conv_ != nullptr) x = (*quant_conv_)(Variable(x)).value();
    } else {
      if (post_quant_conv_ != nullptr) x = (*post_quant_conv_)(Variable(x)).value();
      x = (*decoder_)(x, block_bytes_);
    }
    const Tensor made = x.to(kCpu).to(DType::kFloat32);
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
