#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "train/families/diffusion/latents/latent_source.h"
#include "train/families/images/data/picture_batch.h"

namespace moh {

/// The clean samples x_0 of a training, which a diffusion model learns to make: pictures from -1 to 1, or
/// latents times their scaling factor. Thread-safe.
class TrainingStarts {
 public:
  virtual ~TrainingStarts() = default;

  virtual const SampleOrder& order() const = 0;
  /// Fills `start`, [channels, size, size], and returns the label: functions of (seed, sample). Throws
  /// DataError for a broken picture with OnError::kStop, and where sound ones are rare.
  virtual std::int64_t make(std::int64_t sample, std::span<float> start) const = 0;
};

/// The clean samples of held-out pictures, by their number.
class HeldOutStarts : public LabelledSource {
 public:
  /// Throws DataError for a broken picture.
  virtual void make(std::int64_t index, std::span<float> start) const = 0;
};
using HeldOutStartsPtr = std::shared_ptr<const HeldOutStarts>;

std::unique_ptr<TrainingStarts> starts_of(TrainingPictures pictures);
HeldOutStartsPtr held_out_starts(PictureSourcePtr pictures, const EvaluationView& view);

/// How latents become samples of a training.
struct LatentSampling {
  double flip = 0.5;  ///< probability of the mirrored picture
  std::uint64_t seed = 0;
  OnError on_error = OnError::kStop;
  std::shared_ptr<BrokenPictures> broken;  ///< may be null with kStop
};

/// x_0 = (mean + deviation noise) scaling_factor, of the picture or of its mirror image; noise and choice are
/// drawn anew for each sample, as a function of (seed, sample).
std::unique_ptr<TrainingStarts> starts_of(LatentSourcePtr latents, const SampleOrder& order,
                                          const LatentSampling& sampling);
/// Latents of pictures that are not mirrored, with noise that is a function of their number.
HeldOutStartsPtr held_out_starts(LatentSourcePtr latents);

}  // namespace moh
