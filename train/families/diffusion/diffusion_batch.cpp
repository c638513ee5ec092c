#include "train/families/diffusion/diffusion_batch.h"

#include <algorithm>
#include <cmath>

#include "core/allocator.h"
#include "models/diffusion/flow_path.h"
#include "models/diffusion/sinusoids.h"
#include "ops/shape/reshape.h"
#include "ops/shape/split.h"

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

DiffusionLoss objective_loss(DiffusionObjective objective, const Variable& prediction,
                             const DiffusionTargets& targets, double normalizer) {
  const std::int64_t samples = targets.start.dim(0),
                     elements = samples > 0 ? targets.start.numel() / samples : 0;
  if (objective == DiffusionObjective::kNoise || prediction.numel() == targets.start.numel())
    return diffusion_loss(prediction, targets, normalizer);
  const Variable rows = reshape(prediction, {samples, 2 * elements});
  return diffusion_loss(split(rows, {elements, elements}).front(), targets, normalizer);
}

std::string_view error_name(DiffusionObjective objective) {
  return objective == DiffusionObjective::kNoise ? "noise_mse" : "velocity_mse";
}

NoisySamples::NoisySamples(const DitConfig& model, const DiffusionConfig& trained)
    : schedule_(NoiseSchedule::linear(kDiffusionSteps)),
      channels_(model.channels),
      size_(model.image_size),
      no_class_(model.no_class()),
      trained_(trained) {}

DiffusionBatch NoisySamples::begin(std::int64_t count) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const auto images = [&] { return empty({count, channels_, size_, size_}, DType::kFloat32); };
  return {.targets = {images(), images(), images(), empty({count, kDiffusionFactors}, DType::kFloat32)},
          .steps = trained_.objective == DiffusionObjective::kFlow
                       ? empty({count, kTimeWidth}, DType::kFloat32)
                       : empty({count}, DType::kInt64),
          .labels = empty({count}, DType::kInt64)};
}

std::span<float> NoisySamples::start_of(const DiffusionBatch& batch, std::int64_t row) {
  return row_of(batch.targets.start, row);
}

void NoisySamples::make(DiffusionBatch& batch, std::int64_t row, std::uint64_t seed,
                        std::int64_t sample) const {
  const RandomKey key{seed, kSampleStream | static_cast<std::uint64_t>(sample)};
  if (trained_.objective == DiffusionObjective::kFlow)
    make_of_flow(batch, row, time_of(key), key);
  else
    make_at(batch, row, static_cast<std::int64_t>(random_below(key, 0, kDiffusionSteps)), key);
  if (random_uniform(key, 1) < trained_.label_dropout) batch.labels.data<std::int64_t>()[row] = no_class_;
}

void NoisySamples::make_held_out(DiffusionBatch& batch, std::int64_t row, std::int64_t picture) const {
  constexpr double kGoldenRatio = 0.61803398874989484820;  // its multiples are spread evenly over [0, 1)
  const double turns = static_cast<double>(picture) * kGoldenRatio;
  const auto step = static_cast<std::int64_t>((turns - std::floor(turns)) * kDiffusionSteps);
  make_at(batch, row, step, held_out_key(picture));
}

void NoisySamples::make_at(DiffusionBatch& batch, std::int64_t row, std::int64_t step, RandomKey key) const {
  if (trained_.objective == DiffusionObjective::kFlow)
    return make_of_flow(batch, row, 1 - (static_cast<double>(step) + 0.5) / kDiffusionSteps, key);
  const DiffusionTargets& t = batch.targets;
  random_normals(key, kFirstNoise, row_of(t.noise, row));
  add_noise(schedule_[step], row_of(t.start, row), row_of(t.noise, row), row_of(t.sample, row));
  diffusion_factors(schedule_[step], step == 0, row_of(t.factors, row));
  if (trained_.objective == DiffusionObjective::kVelocity)
    velocity_of(schedule_[step], row_of(t.start, row), row_of(t.noise, row), row_of(t.noise, row));
  batch.steps.data<std::int64_t>()[row] = step;
}

/// A sample at time t of the path. Its factors, which belong to steps, are 0.
void NoisySamples::make_of_flow(DiffusionBatch& batch, std::int64_t row, double t, RandomKey key) const {
  const DiffusionTargets& targets = batch.targets;
  const std::span<float> noise = row_of(targets.noise, row);
  random_normals(key, kFirstNoise, noise);
  move_along(point_of(trained_.path, t), row_of(targets.start, row), noise, row_of(targets.sample, row),
             noise);
  std::ranges::fill(row_of(targets.factors, row), 0.0F);
  time_embedding(t, row_of(batch.steps, row));
}

/// The time of a flow's training sample.
double NoisySamples::time_of(RandomKey key) const {
  if (trained_.time_sampling == TimeSampling::kUniform) return random_uniform(key, 0);
  const double normal = trained_.time_mean + trained_.time_std * random_normal(key, 2);
  return 1 / (1 + std::exp(-normal));
}

RandomKey held_out_key(std::int64_t picture) {
  return {0, kSampleStream | static_cast<std::uint64_t>(picture)};
}

}  // namespace moh
