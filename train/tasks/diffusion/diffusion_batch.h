#pragma once

#include <cstdint>

#include "core/random.h"
#include "models/diffusion/dit.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/reverse_step.h"
#include "ops/loss/diffusion_loss.h"
#include "train/tasks/images/data/picture_batch.h"

namespace moh {

/// B noisy pictures, and what their noise was. On the CPU, or, copied, on a GPU.
struct DiffusionBatch {
  DiffusionTargets targets;  ///< pictures [B, C, size, size] from -1 to 1
  Tensor steps, labels;      ///< [B] int64
  PictureBatch pictures;     ///< [B, size, size, 3]: of which they are made

  DitInput input(DType dtype) const { return {Variable(targets.sample.to(dtype)), steps, labels}; }
};

/// The values of pixels as a diffusion model sees them: -1 to 1.
constexpr ChannelStatistics kSignedPixels{.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};

/// Makes noisy samples of the 1000-step process of pictures that are in `batch.pictures`.
class NoisySamples {
 public:
  /// Samples for `model`; labels are its no_class() for a share `label_dropout` of them. Channels beyond a
  /// picture's three, of latents, which only measurements make of pictures, are the first ones again.
  NoisySamples(const DitConfig& model, double label_dropout);

  /// Memory for noisy samples of a batch of pictures.
  DiffusionBatch begin(PictureBatch pictures) const;
  /// Sample `row` of a training: its step, noise and dropped label are a function of (seed, sample).
  void make(DiffusionBatch& batch, std::int64_t row, std::uint64_t seed, std::int64_t sample) const;
  /// The same for held-out picture number `picture`, with a label: its noise is a function of the number, and
  /// the steps of successive pictures are spread evenly.
  void make_held_out(DiffusionBatch& batch, std::int64_t row, std::int64_t picture) const;
  /// With a step that is given.
  void make_at(DiffusionBatch& batch, std::int64_t row, std::int64_t step, RandomKey key) const;

 private:
  NoiseSchedule schedule_;
  std::int64_t channels_, no_class_;
  double label_dropout_;
};

/// The random numbers of held-out picture number `picture`, the same in every run.
RandomKey held_out_key(std::int64_t picture);

}  // namespace moh
