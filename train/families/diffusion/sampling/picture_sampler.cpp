#include "train/families/diffusion/sampling/picture_sampler.h"

#include <algorithm>
#include <cstring>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/diffusion/dpm_solver.h"
#include "models/diffusion/flow_sampling.h"
#include "models/diffusion/sinusoids.h"

namespace moh {

namespace {

// A stream for each picture, apart from those of training.
constexpr std::uint64_t kPictureStream = std::uint64_t{1} << 56;

RandomKey key_of(std::uint64_t seed, std::int64_t number) {
  return {seed, kPictureStream | static_cast<std::uint64_t>(number)};
}

/// The process of the samplers of discrete steps; a flow, whose steps are times, reads none.
NoiseSchedule schedule_of(const SampleOptions& options) {
  if (options.objective == DiffusionObjective::kFlow) return NoiseSchedule::linear(kDiffusionSteps);
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

}  // namespace

PictureSampler::PictureSampler(const Dit& model, const SampleOptions& options, const Autoencoder* autoencoder)
    : model_(model, options),
      autoencoder_(autoencoder),
      options_(options),
      schedule_(schedule_of(options)),
      steps_(number_of_steps(options)) {
  if (!goes_with(options.reverse.kind, options.objective))
    throw ValueError(error_message("sample", "sampler", "one for what the model predicts", "another"));
  const std::int64_t channels = model.config().channels;
  if (autoencoder != nullptr && autoencoder->config().latent_channels != channels)
    throw ValueError(error_message("sample", "autoencoder",
                                   std::to_string(channels) + " channels of latents, as the model has",
                                   std::to_string(autoencoder->config().latent_channels)));
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

Tensor PictureSampler::sample(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                              FunctionRef<bool()> stop) const {
  MOH_CHECK(numbers.size() == labels.size(), "sample: a label for each picture");
  const NoGrad no_grad;
  Tensor x = options_.objective == DiffusionObjective::kFlow ? along_flow(numbers, labels, stop)
                                                             : back_by_steps(numbers, labels, stop);
  if (!x.defined()) return x;
  if (autoencoder_ != nullptr) x = decoded(x);
  if (!x.all_finite())
    throw NumericError(error_message("sample", "pictures", "finite values", "others",
                                     "the model may have diverged: look at its losses"));
  return x;
}

Tensor PictureSampler::along_flow(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                                  FunctionRef<bool()> stop) const {
  const FlowSampling how{
      .kind = options_.reverse.kind, .path = options_.path, .diffusion = options_.diffusion, .steps = steps_};
  const auto velocity = [&](const Tensor& x, double t) {
    const Tensor time = empty({1, kTimeWidth}, DType::kFloat32);
    time_embedding(t, time.span<float>());
    return model_.prediction(x, labels, time, point_of(options_.path, t).level());
  };
  const auto noise_of_step = [&](std::int64_t left) { return noise(numbers, left); };
  return follow_flow(noise(numbers, 0), how, velocity, noise_of_step, stop);
}

Tensor PictureSampler::back_by_steps(std::span<const std::int64_t> numbers,
                                     std::span<const std::int64_t> labels, FunctionRef<bool()> stop) const {
  const ReverseOptions& reverse = options_.reverse;
  const bool is_dpm = reverse.kind == SamplerKind::kDpmSolver;
  const bool draws = !is_dpm && (reverse.kind == SamplerKind::kAncestral || reverse.eta > 0);
  DpmSolver solver(schedule_, reverse.clip_start);
  Tensor x = noise(numbers, 0);
  for (std::int64_t step = schedule_.size() - 1; step >= 0; --step) {
    if (stop()) return {};
    const NoiseStep& now = schedule_[step];
    const Tensor time = full({1}, static_cast<double>(now.trained_step), DType::kInt64);
    const Tensor prediction = model_.prediction(x, labels, time, now.per_noise);
    if (options_.objective == DiffusionObjective::kVelocity) noise_of_velocity(now, x, prediction);
    if (is_dpm) {
      x = solver.step(x, prediction, step);
      continue;
    }
    const std::vector<std::int64_t> steps(numbers.size(), step);
    const Tensor drawn = draws && step > 0 ? noise(numbers, step) : Tensor();
    x = reverse_step(schedule_, x, prediction, steps, drawn, reverse).sample;
  }
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

bool clips_usually(DiffusionObjective objective, const DitConfig& model) {
  return objective != DiffusionObjective::kFlow && model.channels == Picture::kChannels;
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
