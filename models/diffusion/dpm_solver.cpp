#include "models/diffusion/dpm_solver.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace moh {

namespace {

/// x_t = of_sample x_s + of_start (m_s + of_slope (m_s - m_r)).
struct SolverFactors {
  float of_sample, of_start, of_slope;
};

double log_ratio(const NoiseStep& s) {
  return std::log(s.signal / s.noise);
}

SolverFactors factors_of(const NoiseSchedule& schedule, std::int64_t step, bool has_before) {
  if (step == 0) return {0, 1, 0};
  const NoiseStep &from = schedule[step], &to = schedule[step - 1];
  const double shrink = to.noise / from.noise, length = log_ratio(to) - log_ratio(from);
  const double slope = has_before ? length / (2 * (log_ratio(from) - log_ratio(schedule[step + 1]))) : 0;
  return {static_cast<float>(shrink), static_cast<float>(to.signal - from.signal * shrink),
          static_cast<float>(slope)};
}

void check_shapes(const Tensor& x, const Tensor& prediction) {
  const bool fits = prediction.dim(0) == x.dim(0) &&
                    (prediction.numel() == x.numel() || prediction.numel() == 2 * x.numel());
  if (!fits)
    throw ShapeError(error_message("dpm_solver", "prediction",
                                   "one or two numbers for each of x " + to_string(x.shape()),
                                   to_string(prediction.shape())));
}

}  // namespace

Tensor DpmSolver::step(const Tensor& x, const Tensor& prediction, std::int64_t step) {
  check_shapes(x, prediction);
  const NoiseStep& now = schedule_[step];
  const auto per_signal = static_cast<float>(now.per_signal), per_noise = static_cast<float>(now.per_noise);
  const SolverFactors f = factors_of(schedule_, step, start_before_.defined());
  const Tensor start = empty_like(x), before = start_before_.defined() ? start_before_ : start;
  Tensor result = empty_like(x);
  const std::int64_t samples = x.dim(0), elements = samples > 0 ? x.numel() / samples : 0;
  const std::int64_t outputs = samples > 0 ? prediction.numel() / samples : 0;
  parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const float *own = x.data<float>() + b * elements, *noise = prediction.data<float>() + b * outputs;
      float *to_start = start.data<float>() + b * elements, *to = result.data<float>() + b * elements;
      const float* last = before.data<float>() + b * elements;
      for (std::int64_t j = 0; j < elements; ++j) {
        const float estimate = per_signal * own[j] - per_noise * noise[j];
        to_start[j] = clip_start_ ? std::clamp(estimate, -1.0F, 1.0F) : estimate;
        const float along = to_start[j] + f.of_slope * (to_start[j] - last[j]);
        to[j] = f.of_sample * own[j] + f.of_start * along;
      }
    }
  });
  start_before_ = start;
  return result;
}

}  // namespace moh
