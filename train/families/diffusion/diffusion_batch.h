#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/random.h"
#include "models/diffusion/dit.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/reverse_step.h"
#include "ops/loss/diffusion_loss.h"
#include "train/families/diffusion/diffusion_config.h"

namespace moh {

/// B noisy pictures, or latents, and what a model is to predict of them. On the CPU, or, copied, on a GPU.
struct DiffusionBatch {
  /// [B, C, size, size]; `start` is what the noise was added to, and `noise` is the target: of other
  /// objectives than kNoise the velocity.
  DiffusionTargets targets;
  Tensor steps;   ///< as DitInput has them: of a flow the embeddings of times
  Tensor labels;  ///< [B] int64

  DitInput input(DType dtype) const { return {Variable(targets.sample.to(dtype)), steps, labels}; }
};

/// The loss of an objective: diffusion_loss, of velocities without its bound. Half of the outputs of a model
/// with learn_variance then are not trained, as in SiT's code.
DiffusionLoss objective_loss(DiffusionObjective objective, const Variable& prediction,
                             const DiffusionTargets& targets, double normalizer);
/// The key of an objective's squared error in metrics.
std::string_view error_name(DiffusionObjective objective);

/// Makes noisy samples of the process that is trained, of what is in `batch.targets.start`, with the labels
/// that are there.
class NoisySamples {
 public:
  NoisySamples(const DitConfig& model, const DiffusionConfig& trained);

  const DiffusionConfig& trained() const { return trained_; }

  /// Memory for a batch of `count` samples.
  DiffusionBatch begin(std::int64_t count) const;
  /// Room for the start of a sample.
  static std::span<float> start_of(const DiffusionBatch& batch, std::int64_t row);
  /// Sample `row` of a training: its step, noise and dropped label are a function of (seed, sample). The
  /// label is the model's no_class() for a share `label_dropout` of the samples.
  void make(DiffusionBatch& batch, std::int64_t row, std::uint64_t seed, std::int64_t sample) const;
  /// Makes held-out picture number `picture`, with a label: its noise is a function of the number, and the
  /// steps of successive pictures are spread evenly.
  void make_held_out(DiffusionBatch& batch, std::int64_t row, std::int64_t picture) const;
  /// With a step that is given; of a flow, with the time 1 - (step + 1/2) / kDiffusionSteps.
  void make_at(DiffusionBatch& batch, std::int64_t row, std::int64_t step, RandomKey key) const;

 private:
  void make_of_flow(DiffusionBatch& batch, std::int64_t row, double t, RandomKey key) const;
  double time_of(RandomKey key) const;

  NoiseSchedule schedule_;
  std::int64_t channels_, size_, no_class_;
  DiffusionConfig trained_;
};

/// The random numbers of held-out picture number `picture`, the same in every run.
RandomKey held_out_key(std::int64_t picture);

}  // namespace moh
