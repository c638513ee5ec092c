#include "models/diffusion/flow_sampling.h"

#include <charconv>
#include <cmath>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

constexpr double kSbdmStart = 1e-3, kLastStep = 0.04;
constexpr std::int64_t kMostSteps = 100'000;

/// y := of_x x + of_velocity velocity + of_noise noise, of each sample the first elements of its velocity.
struct FlowTerms {
  double of_x = 1, of_velocity = 0, of_noise = 0;
};

Tensor combined(const FlowTerms& terms, const Tensor& x, const Tensor& velocity, const Tensor& noise) {
  const std::int64_t samples = x.dim(0), elements = samples > 0 ? x.numel() / samples : 0;
  const std::int64_t outputs = samples > 0 ? velocity.numel() / samples : 0;
  if (velocity.dim(0) != samples || (outputs != elements && outputs != 2 * elements))
    throw ShapeError(error_message("follow_flow", "velocity",
                                   "one or two numbers for each of x " + to_string(x.shape()),
                                   to_string(velocity.shape())));
  const auto of_x = static_cast<float>(terms.of_x), of_velocity = static_cast<float>(terms.of_velocity),
             of_noise = static_cast<float>(terms.of_noise);
  Tensor y = empty_like(x);
  for (std::int64_t b = 0; b < samples; ++b) {
    const float *own = x.data<float>() + b * elements, *v = velocity.data<float>() + b * outputs;
    const float* drawn = noise.defined() ? noise.data<float>() + b * elements : nullptr;
    float* to = y.data<float>() + b * elements;
    for (std::int64_t j = 0; j < elements; ++j) {
      to[j] = of_x * own[j] + of_velocity * v[j];
      if (drawn != nullptr) to[j] += of_noise * drawn[j];
    }
  }
  return y;
}

double diffusion_at(FlowDiffusion form, const FlowPoint& p) {
  switch (form) {
    case FlowDiffusion::kSigma:
      return p.noise;
    case FlowDiffusion::kSbdm:
      return p.noise * (p.noise * p.signal_slope / p.signal - p.noise_slope);
    case FlowDiffusion::kConstant:
      break;
  }
  return 1;
}

/// A step of `length` by the drift v + w score. The noise in x_t is eps = (signal v - signal_slope x) /
/// (signal noise_slope - signal_slope noise), whose denominator is never 0, and the score -eps / noise.
FlowTerms drift_terms(const FlowPoint& p, double w, double length) {
  const double per_noise = 1 / (p.signal * p.noise_slope - p.signal_slope * p.noise), share = w / p.noise;
  return {.of_x = 1 + length * share * p.signal_slope * per_noise,
          .of_velocity = length * (1 - share * p.signal * per_noise)};
}

/// A time and the next one.
struct FlowStep {
  double t, length;
};

/// Step number i of equal ones over [begin, end].
FlowStep equal_step(std::int64_t i, std::int64_t count, double begin, double end) {
  const double length = (end - begin) / static_cast<double>(count);
  return {begin + static_cast<double>(i) * length, length};
}

Tensor deterministic_step(const Tensor& x, const FlowStep& at, bool heun, VelocityOf velocity) {
  const Tensor first = velocity(x, at.t);
  Tensor moved = combined({.of_velocity = at.length}, x, first, {});
  if (!heun) return moved;
  const Tensor half = combined({.of_velocity = at.length / 2}, x, first, {});
  return combined({.of_velocity = at.length / 2}, half, velocity(moved, at.t + at.length), {});
}

/// Step number i of kEulerMaruyama.
Tensor stochastic_step(const Tensor& x, const FlowSampling& how, std::int64_t i, VelocityOf velocity,
                       NoiseOfStep noise) {
  const double begin = how.diffusion == FlowDiffusion::kSbdm ? kSbdmStart : 0;
  const std::int64_t left = how.steps - 1 - i;
  FlowStep at{begin, 1 - begin};
  if (left > 0) at = equal_step(i, how.steps - 1, begin, 1 - kLastStep);
  if (left == 0 && how.steps > 1) at = {1 - kLastStep, kLastStep};
  const FlowPoint p = point_of(how.path, at.t);
  const double w = diffusion_at(how.diffusion, p);
  FlowTerms terms = drift_terms(p, w, at.length);
  terms.of_noise = std::sqrt(2 * w * at.length);
  return combined(terms, x, velocity(x, at.t), left > 0 ? noise(left) : Tensor());
}

}  // namespace

Tensor follow_flow(Tensor x, const FlowSampling& how, VelocityOf velocity, NoiseOfStep noise,
                   FunctionRef<bool()> stop) {
  MOH_CHECK(follows_flow(how.kind), "follow_flow: a sampler of flows");
  for (std::int64_t i = 0; i < how.steps; ++i) {
    if (stop()) return {};
    x = how.kind == SamplerKind::kEulerMaruyama
            ? stochastic_step(x, how, i, velocity, noise)
            : deterministic_step(x, equal_step(i, how.steps, 0, 1), how.kind == SamplerKind::kHeun, velocity);
  }
  return x;
}

std::int64_t flow_steps(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > kMostSteps)
    throw ValueError(error_message("flow", "steps", "1 to " + std::to_string(kMostSteps), std::string(text)));
  return number;
}

}  // namespace moh
