#include "train/families/diffusion/sampling/picture_sampler.h"

#include <algorithm>
#include <cstring>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"

namespace moh {

namespace {

// A stream for each picture, apart from those of training.
constexpr std::uint64_t kPictureStream = std::uint64_t{1} << 56;

RandomKey key_of(std::uint64_t seed, std::int64_t number) {
  return {seed, kPictureStream | static_cast<std::uint64_t>(number)};
}

NoiseSchedule schedule_of(const SampleOptions& options) {
  return NoiseSchedule::linear(kDiffusionSteps).respaced(steps_of(options.steps, kDiffusionSteps));
}

/// [B, C, H, W] as [B, H, W, C], or the other way around.
Tensor swapped(const Tensor& x, bool channels_last) {
  const std::int64_t inner = channels_last ? x.dim(1) : x.dim(1) * x.dim(2);
  const std::int64_t columns = channels_last ? x.dim(2) * x.dim(3) : x.dim(3);
  const Shape shape = channels_last ? Shape{x.dim(0), x.dim(2), x.dim(3), x.dim(1)}
                                    : Shape{x.dim(0), x.dim(3), x.dim(1), x.dim(2)};
  Tensor y = empty(shape, DType::kFloat32);
  // Transposes a matrix [inner, columns] for each image.
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t image = i / (inner * columns), row = i / columns % inner, column = i % columns;
    y.data<float>()[(image * columns + column) * inner + row] = x.data<float>()[i];
  }
  return y;
}

Tensor labels_tensor(std::span<const std::int64_t> labels, std::int64_t no_class, const SampleOptions& o) {
  const std::int64_t count = std::ssize(labels);
  Tensor result = full({o.guidance != 1.0 ? 2 * count : count}, static_cast<double>(no_class), DType::kInt64);
  if (o.labels) std::ranges::copy(labels, result.data<std::int64_t>());
  return result;
}

}  // namespace

PictureSampler::PictureSampler(const Dit& model, const SampleOptions& options, const Autoencoder* autoencoder)
    : model_(model), autoencoder_(autoencoder), options_(options), schedule_(schedule_of(options)) {
  const std::int64_t channels = model.config().channels;
  if (autoencoder != nullptr && autoencoder->config().latent_channels != channels)
    throw ValueError(error_message("sample", "autoencoder",
                                   std::to_string(channels) + " channels of latents, as the model has",
                                   std::to_string(autoencoder->config().latent_channels)));
  if (options.guided_channels >= 0 && options.guided_channels <= channels) return;
  throw ValueError(error_message("sample", "guided channels", "at most " + std::to_string(channels),
                                 std::to_string(options.guided_channels)));
}

std::int64_t PictureSampler::side() const {
  return model_.config().image_size * (autoencoder_ == nullptr ? 1 : autoencoder_->config().reduction());
}

/// Pictures [B, C, H, W] of latents [B, L, h, w].
Tensor PictureSampler::decoded(const Tensor& latents) const {
  const auto factor = static_cast<float>(autoencoder_->config().scaling_factor);
  const Tensor last = swapped(latents, /*channels_last=*/true);
  for (float& x : last.span<float>()) x /= factor;
  return swapped(autoencoder_->decode(last), /*channels_last=*/false);
}

/// Normal numbers of each picture: those of its start (use 0), or of the step before which `use` are left.
Tensor PictureSampler::noise(std::span<const std::int64_t> numbers, std::int64_t use) const {
  const DitConfig& c = model_.config();
  Tensor result = empty({std::ssize(numbers), c.channels, c.image_size, c.image_size}, DType::kFloat32);
  const auto elements = static_cast<std::uint64_t>(c.channels * c.image_size * c.image_size);
  for (std::size_t b = 0; b < numbers.size(); ++b) {
    const Tensor row = result.select(static_cast<std::int64_t>(b));
    random_normals(key_of(options_.seed, numbers[b]), static_cast<std::uint64_t>(use + 1) * elements,
                   row.span<float>());
  }
  return result;
}

Tensor PictureSampler::prediction(const Tensor& x, std::span<const std::int64_t> labels,
                                  std::int64_t step) const {
  const std::int64_t count = x.dim(0);
  const bool guided = options_.guidance != 1.0;
  Tensor images = x;
  if (guided) {
    images = empty({2 * count, x.dim(1), x.dim(2), x.dim(3)}, DType::kFloat32);
    images.slice(0, count).copy_from(x);
    images.slice(count, 2 * count).copy_from(x);
  }
  const Tensor all_labels = labels_tensor(labels, model_.config().no_class(), options_);
  const Tensor steps =
      full(all_labels.shape(), static_cast<double>(schedule_[step].trained_step), DType::kInt64);
  const Device device = model_.device();
  const DitInput input{Variable(images.to(model_.dtype()).to(device)), steps.to(device),
                       all_labels.to(device)};
  Tensor predicted = model_.forward(input).prediction.value().to(kCpu).to(DType::kFloat32);
  if (!guided) return predicted;
  guide(predicted.slice(0, count), predicted.slice(count, 2 * count), options_.guided_channels,
        options_.guidance);
  return predicted.slice(0, count);
}

Tensor PictureSampler::sample(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                              FunctionRef<bool()> stop) const {
  MOH_CHECK(numbers.size() == labels.size(), "sample: a label for each picture");
  const NoGrad no_grad;
  const ReverseOptions& reverse = options_.reverse;
  const bool draws = reverse.kind == SamplerKind::kAncestral || reverse.eta > 0;
  Tensor x = noise(numbers, 0);
  for (std::int64_t step = schedule_.size() - 1; step >= 0; --step) {
    if (stop()) return {};
    const std::vector<std::int64_t> steps(numbers.size(), step);
    const Tensor drawn = draws && step > 0 ? noise(numbers, step) : Tensor();
    x = reverse_step(schedule_, x, prediction(x, labels, step), steps, drawn, reverse).sample;
  }
  if (autoencoder_ != nullptr) x = decoded(x);
  if (!x.all_finite())
    throw NumericError(error_message("sample", "pictures", "finite values", "others",
                                     "the model may have diverged: look at its losses"));
  return x;
}

Tensor sample_together(const PictureSampler& sampler, std::span<const std::int64_t> numbers,
                       std::span<const std::int64_t> labels, FunctionRef<bool()> stop,
                       Communicator& processes) {
  // As many in each process, so that all make the same steps: the last ones maybe draw the last picture
  // again.
  const std::int64_t total = std::ssize(numbers);
  const std::int64_t each = (total + processes.size() - 1) / processes.size();
  std::vector<std::int64_t> own_numbers, own_labels;
  for (std::int64_t i = 0; i < each; ++i) {
    const auto at = static_cast<std::size_t>(std::min(processes.rank() * each + i, total - 1));
    own_numbers.push_back(numbers[at]);
    own_labels.push_back(labels[at]);
  }
  Tensor own = sampler.sample(own_numbers, own_labels, stop);
  if (!own.defined() || processes.alone()) return own;
  const Tensor all = empty({processes.size() * each, own.dim(1), own.dim(2), own.dim(3)}, own.dtype());
  processes.all_gather(own, all.reshape({processes.size(), each, own.dim(1), own.dim(2), own.dim(3)}));
  return all.slice(0, total);
}

std::int64_t random_label(std::uint64_t seed, std::int64_t number, std::int64_t classes) {
  return static_cast<std::int64_t>(
      random_below(key_of(seed, number), 0, static_cast<std::uint64_t>(classes)));
}

Picture to_picture(const Tensor& values) {
  const std::int64_t height = values.dim(1), width = values.dim(2), pixels = height * width;
  Picture picture({static_cast<int>(width), static_cast<int>(height)});
  const float* from = values.data<float>();
  const std::span<std::uint8_t> to = picture.bytes();
  for (std::int64_t i = 0; i < pixels * Picture::kChannels; ++i) {
    const std::int64_t channel = i % Picture::kChannels, pixel = i / Picture::kChannels;
    const float level = 127.5F * from[channel * pixels + pixel] + 128.0F;
    to[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::clamp(level, 0.0F, 255.0F));
  }
  return picture;
}

Picture picture_grid(std::span<const Picture> pictures, int columns) {
  MOH_CHECK(!pictures.empty() && columns > 0, "picture_grid: pictures, and columns");
  const PictureSize one = pictures.front().size();
  const int count = static_cast<int>(pictures.size()), across = std::min(columns, count);
  const int rows = (count + across - 1) / across;
  Picture grid({across * (one.width + 1) - 1, rows * (one.height + 1) - 1});
  std::ranges::fill(grid.bytes(), std::uint8_t{0});
  for (int i = 0; i < count; ++i) {
    const Picture& picture = pictures[static_cast<std::size_t>(i)];
    const int top = i / across * (one.height + 1);
    const auto left = static_cast<std::size_t>(i % across * (one.width + 1)) * Picture::kChannels;
    for (int y = 0; y < one.height; ++y)
      std::memcpy(grid.row(top + y) + left, picture.row(y), picture.row_bytes());
  }
  return grid;
}

}  // namespace moh
