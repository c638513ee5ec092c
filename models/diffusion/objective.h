#pragma once

#include "models/diffusion/sampler_kind.h"

namespace moh {

/// The quantity that a model predicts, with the process that it belongs to.
enum class DiffusionObjective {
  kNoise,     ///< the noise eps of the process of 1000 steps (DiT, arXiv 2212.09748)
  kVelocity,  ///< v = signal eps - noise x_0 of that process (Salimans & Ho 2022, arXiv 2202.00512)
  kFlow,      ///< dx_t/dt of a path from noise to data (SiT, Ma et al. 2024, arXiv 2401.08740), see FlowPath
};

/// How the times of a flow's training are drawn.
enum class TimeSampling { kUniform, kLogitNormal };

/// Whether a sampler draws from models of an objective.
constexpr bool goes_with(SamplerKind sampler, DiffusionObjective objective) {
  return sampler == SamplerKind::kAuto || follows_flow(sampler) == (objective == DiffusionObjective::kFlow);
}

}  // namespace moh
