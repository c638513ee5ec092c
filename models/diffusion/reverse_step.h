#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler_kind.h"
#include "ops/loss/diffusion_loss.h"

namespace moh {

/// x_t = signal x_0 + noise eps of a step, in float32, for the elements of a sample.
void add_noise(const NoiseStep& step, std::span<const float> start, std::span<const float> noise,
               std::span<float> to);

/// v = signal eps - noise x_0 of a step, in float32, for the elements of a sample.
void velocity_of(const NoiseStep& step, std::span<const float> start, std::span<const float> noise,
                 std::span<float> to);

/// The row of factors that diffusion_loss reads for a step; `first` is the process's first.
void diffusion_factors(const NoiseStep& step, bool first, std::span<float> to);

struct ReverseOptions {
  SamplerKind kind = SamplerKind::kAncestral;
  double eta = 0;           ///< of kDdim: 0 without noise, 1 as much as the ancestral sampler's
  bool clip_start = false;  ///< bounds the estimate of x_0 to [-1, 1]
};

/// Turns predictions [B, C, ...] of v = signal eps - noise x_0 at a step, for x of their shape, into those of
/// the noise, in place: eps = signal v + noise x. Both float32 on the CPU. Throws ShapeError.
void noise_of_velocity(const NoiseStep& step, const Tensor& x, const Tensor& prediction);

/// The results of a step back; all float32, of x_t's shape.
struct ReverseStep {
  Tensor sample, start;       ///< x_(t-1), and the estimate of x_0
  Tensor mean, log_variance;  ///< of the model's distribution; undefined for kDdim
};

/// A step back from `x` [B, C, ...], float32 on the CPU, by a prediction [B, C, ...] of the noise or [B, 2 C,
/// ...] with the variance's interpolation, whose factor without it is that of the posterior (Ho et al. 2020).
/// `steps` has the number in the schedule of each sample; `noise`, of x's shape, is not read in first steps
/// and may be undefined where nothing is drawn. Steps of kDpmSolver are those of DpmSolver, not of this
/// function. Throws ShapeError, ValueError.
ReverseStep reverse_step(const NoiseSchedule& schedule, const Tensor& x, const Tensor& prediction,
                         std::span<const std::int64_t> steps, const Tensor& noise,
                         const ReverseOptions& options);

/// Classifier-free guidance (Ho & Salimans 2022, arXiv 2207.12598): in the first `channels` of the
/// predictions with a label and without, [B, C', ...] float32 on the CPU, eps := eps_without + scale
/// (eps_with - eps_without); the result is `with`, in place. The other channels stay: DiT guides three of
/// four.
void guide(const Tensor& with, const Tensor& without, std::int64_t channels, double scale);

}  // namespace moh
