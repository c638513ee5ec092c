#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "models/diffusion/autoencoder.h"
#include "models/diffusion/noise_schedule.h"
#include "train/base/formats/pictures/picture.h"
#include "train/comm/communicator.h"
#include "train/families/diffusion/sampling/guided_model.h"

namespace moh {

/// Draws pictures by number: picture n is a function of (model, options, n, label), whatever batch it is in.
/// With an autoencoder, what the model makes are latents times its scaling factor, which it decodes.
class PictureSampler {
 public:
  /// The model, and the autoencoder, where there is one, must outlive the sampler. Throws ValueError for
  /// steps that number_of_steps() refuses, for a sampler
  /// that does not go with the objective, for more guided channels than there are, and for an autoencoder of
  /// other latents.
  PictureSampler(const Dit& model, const SampleOptions& options, const Autoencoder* autoencoder = nullptr);

  std::int64_t steps() const { return steps_; }
  /// Pixels on a side of the pictures.
  std::int64_t side() const;

  /// Pictures `numbers` with these labels, [B, C, H, W] float32 on the CPU, of values around -1 to 1. Calls
  /// `stop` before each step; returns an undefined tensor if it returned true. Throws NumericError for
  /// pictures that are not finite.
  Tensor sample(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                FunctionRef<bool()> stop) const;

 private:
  Tensor noise(std::span<const std::int64_t> numbers, std::int64_t use) const;
  /// Samples by the steps of the process, and along a flow; undefined if `stop` returned true.
  Tensor back_by_steps(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                       FunctionRef<bool()> stop) const;
  Tensor along_flow(std::span<const std::int64_t> numbers, std::span<const std::int64_t> labels,
                    FunctionRef<bool()> stop) const;
  Tensor decoded(const Tensor& latents) const;

  GuidedModel model_;
  const Autoencoder* autoencoder_;
  SampleOptions options_;
  NoiseSchedule schedule_;
  std::int64_t steps_;
};

/// sample() by several processes, each of which draws a part, with the same bits for any number of them: all
/// get all pictures. Every one calls `stop` as often as the others, and has to get the same answer.
Tensor sample_together(const PictureSampler& sampler, std::span<const std::int64_t> numbers,
                       std::span<const std::int64_t> labels, FunctionRef<bool()> stop,
                       Communicator& processes);

/// Whether estimates of the picture are bounded to [-1, 1] where nothing else is said: of pixels, which lie
/// there; latents have no bounds, and a flow has no such estimate.
bool clips_usually(DiffusionObjective objective, const DitConfig& model);

/// The label of picture number `number` where they are drawn at random: uniform over the classes.
std::int64_t random_label(std::uint64_t seed, std::int64_t number, std::int64_t classes);

/// 8-bit pixels of a picture [3, H, W]: 127.5 x + 128, cut to 0 to 255, and truncated, as DiT's code makes
/// them.
Picture to_picture(const Tensor& values);

/// Pictures of one size in rows of `columns`, with a black pixel between them.
Picture picture_grid(std::span<const Picture> pictures, int columns);

}  // namespace moh
