#include "train/families/diffusion/diffusion_batch.h"

#include <cmath>

#include "core/allocator.h"

namespace moh {

namespace {

// Random streams apart from those of pictures (TrainingPictures) and of their mixing; a stream for each
// sample.
constexpr std::uint64_t kSampleStream = std::uint64_t{1} << 55;
/// Element of a stream with which the noise begins, after the few numbers that say step and label.
constexpr std::uint64_t kFirstNoise = 16;

std::span<float> row_of(const Tensor& tensor, std::int64_t row) {
  const Tensor own = tensor.select(row);
  return own.span<float>();
}

}  // namespace

NoisySamples::NoisySamples(const DitConfig& model, double label_dropout)
    : schedule_(NoiseSchedule::linear(kDiffusionSteps)),
      channels_(model.channels),
      size_(model.image_size),
      no_class_(model.no_class()),
      label_dropout_(label_dropout) {}

DiffusionBatch NoisySamples::begin(std::int64_t count) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const auto images = [&] { return empty({count, channels_, size_, size_}, DType::kFloat32); };
  return {.targets = {images(), images(), images(), empty({count, kDiffusionFactors}, DType::kFloat32)},
          .steps = empty({count}, DType::kInt64),
          .labels = empty({count}, DType::kInt64)};
}

std::span<float> NoisySamples::start_of(const DiffusionBatch& batch, std::int64_t row) {
  return row_of(batch.targets.start, row);
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
  random_normals(key, kFirstNoise, row_of(t.noise, row));
  add_noise(schedule_[step], row_of(t.start, row), row_of(t.noise, row), row_of(t.sample, row));
  diffusion_factors(schedule_[step], step == 0, row_of(t.factors, row));
  batch.steps.data<std::int64_t>()[row] = step;
}

RandomKey held_out_key(std::int64_t picture) {
  return {0, kSampleStream | static_cast<std::uint64_t>(picture)};
}

}  // namespace moh
