#include "train/tasks/diffusion/diffusion_batch.h"

#include <cmath>
#include <span>
#include <utility>

#include "core/allocator.h"

namespace moh {

namespace {

// Random streams apart from those of pictures (TrainingPictures) and of their mixing; a stream for each
// sample.
constexpr std::uint64_t kSampleStream = std::uint64_t{1} << 55;
/// Element of a stream with which the noise begins, after the few numbers that say step and label.
constexpr std::uint64_t kFirstNoise = 16;

/// A picture [size, size, 3] by channels, [C, size, size].
void by_channel(std::span<const float> from, std::span<float> to) {
  constexpr std::size_t kChannels = Picture::kChannels;
  const std::size_t pixels = from.size() / kChannels;
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = from[j % pixels * kChannels + j / pixels % kChannels];
}

std::span<float> row_of(const Tensor& tensor, std::int64_t row) {
  const Tensor own = tensor.select(row);
  return own.span<float>();
}

}  // namespace

NoisySamples::NoisySamples(const DitConfig& model, double label_dropout)
    : schedule_(NoiseSchedule::linear(kDiffusionSteps)),
      channels_(model.channels),
      no_class_(model.no_class()),
      label_dropout_(label_dropout) {}

DiffusionBatch NoisySamples::begin(PictureBatch pictures) const {
  if (!pictures.pictures.defined()) return {};
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const std::int64_t count = pictures.pictures.dim(0), size = pictures.pictures.dim(1);
  const auto images = [&] { return empty({count, channels_, size, size}, DType::kFloat32); };
  return {.targets = {images(), images(), images(), empty({count, kDiffusionFactors}, DType::kFloat32)},
          .steps = empty({count}, DType::kInt64),
          .labels = empty({count}, DType::kInt64),
          .pictures = std::move(pictures)};
}

void NoisySamples::make(DiffusionBatch& batch, std::int64_t row, std::uint64_t seed,
                        std::int64_t sample) const {
  const RandomKey key{seed, kSampleStream | static_cast<std::uint64_t>(sample)};
  make_at(batch, row, static_cast<std::int64_t>(random_below(key, 0, kDiffusionSteps)), key);
  if (random_uniform(key, 1) < label_dropout_) batch.labels.data<std::int64_t>()[row] = no_class_;
}

void NoisySamples::make_held_out(DiffusionBatch& batch, std::int64_t row, std::int64_t picture) const {
  constexpr double kGoldenRatio = 0.61803398874989484820;  // its multiples are spread evenly over [0, 1)
  const double turns = static_cast<double>(picture) * kGoldenRatio;
  const auto step = static_cast<std::int64_t>((turns - std::floor(turns)) * kDiffusionSteps);
  make_at(batch, row, step, held_out_key(picture));
}

void NoisySamples::make_at(DiffusionBatch& batch, std::int64_t row, std::int64_t step, RandomKey key) const {
  const DiffusionTargets& t = batch.targets;
  by_channel(row_of(batch.pictures.pictures, row), row_of(t.start, row));
  random_normals(key, kFirstNoise, row_of(t.noise, row));
  add_noise(schedule_[step], row_of(t.start, row), row_of(t.noise, row), row_of(t.sample, row));
  diffusion_factors(schedule_[step], step == 0, row_of(t.factors, row));
  batch.steps.data<std::int64_t>()[row] = step;
  batch.labels.data<std::int64_t>()[row] = batch.pictures.labels.data<std::int64_t>()[row];
}

RandomKey held_out_key(std::int64_t picture) {
  return {0, kSampleStream | static_cast<std::uint64_t>(picture)};
}

}  // namespace moh
