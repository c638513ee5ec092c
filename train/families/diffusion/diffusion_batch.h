#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"
#include "models/diffusion/dit.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/reverse_step.h"
#include "ops/loss/diffusion_loss.h"

namespace moh {

/// B noisy pictures, or latents, and what their noise was. On the CPU, or, copied, on a GPU.
struct DiffusionBatch {
  DiffusionTargets targets;  ///< [B, C, size, size]; `start` is what the noise was added to
  Tensor steps, labels;      ///< [B] int64

  DitInput input(DType dtype) const { return {Variable(targets.sample.to(dtype)), steps, labels}; }
};

/// Makes noisy samples of the 1000-step process of what is in `batch.targets.start`, with the labels that are
/// there.
class NoisySamples {
 public:
  /// Samples for `model`; labels are its no_class() for a share `label_dropout` of them.
  NoisySamples(const DitConfig& model, double label_dropout);

  /// Memory for a batch of `count` samples.
  DiffusionBatch begin(std::int64_t count) const;
  /// Room for the start of a sample.
  static std::span<float> start_of(const DiffusionBatch& batch, std::int64_t row);
  /// Sample `row` of a training: its step, noise and dropped label are a function of (seed, sample).
  void make(DiffusionBatch& batch, std::int64_t row, std::uint64_t seed, std::int64_t sample) const;
  /// Makes held-out picture number `picture`, with a label: its noise is a function of the number, and the
  /// steps of successive pictures are spread evenly.
  void make_held_out(DiffusionBatch& batch, std::int64_t row, std::int64_t picture) const;
  /// With a step that is given.
  void make_at(DiffusionBatch& batch, std::int64_t row, std::int64_t step, RandomKey key) const;

 private:
  NoiseSchedule schedule_;
  std::int64_t channels_, size_, no_class_;
  double label_dropout_;
};

/// The random numbers of held-out picture number `picture`, the same in every run.
RandomKey held_out_key(std::int64_t picture);

}  // namespace moh
