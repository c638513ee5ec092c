#pragma once

#include <cstdint>
#include <string_view>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "models/diffusion/flow_path.h"
#include "models/diffusion/sampler_kind.h"

namespace moh {

/// How pictures are drawn along a flow.
struct FlowSampling {
  SamplerKind kind = SamplerKind::kEuler;  ///< one of those with follows_flow()
  FlowPath path = FlowPath::kLinear;
  FlowDiffusion diffusion = FlowDiffusion::kSigma;
  std::int64_t steps = 250;
};

/// A velocity [B, C, ...] or [B, 2 C, ...], of which the second half is not read, of x [B, C, ...] at t.
using VelocityOf = FunctionRef<Tensor(const Tensor& x, double t)>;

/// Noise of x's shape, for the step before which so many are left.
using NoiseOfStep = FunctionRef<Tensor(std::int64_t left)>;

/// Follows noise x [B, C, ...], float32 on the CPU, to t = 1. Euler and Heun take equal steps over [0, 1],
/// Heun with two velocities for each. kEulerMaruyama is that of SiT's code: all steps but one are equal
/// and end at t = 0.96 (kSbdm: they begin at t = 0.001, as its coefficient is infinite at 0); the last one
/// goes to 1 by the drift alone. `stop` is called before each step; returns an undefined tensor if it
/// returned true. Throws ShapeError, ValueError.
Tensor follow_flow(Tensor x, const FlowSampling& how, VelocityOf velocity, NoiseOfStep noise,
                   FunctionRef<bool()> stop);

/// Steps of a flow by a text such as "50". Throws ValueError.
std::int64_t flow_steps(std::string_view text);

}  // namespace moh
