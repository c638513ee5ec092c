#include "models/diffusion/reverse_step.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace moh {

namespace {

/// The numbers of a step as float32, which the reference computes with.
struct StepFactors {
  float per_signal, per_noise, mean_of_start, mean_of_sample, log_beta, log_posterior, product,
      product_before;

  explicit StepFactors(const NoiseStep& s)
      : per_signal(static_cast<float>(s.per_signal)),
        per_noise(static_cast<float>(s.per_noise)),
        mean_of_start(static_cast<float>(s.mean_of_start)),
        mean_of_sample(static_cast<float>(s.mean_of_sample)),
        log_beta(static_cast<float>(s.log_beta)),
        log_posterior(static_cast<float>(s.log_posterior)),
        product(static_cast<float>(s.product)),
        product_before(static_cast<float>(s.product_before)) {}

  float start_of(float x, float noise, bool clip) const {
    const float start = per_signal * x - per_noise * noise;
    return clip ? std::clamp(start, -1.0F, 1.0F) : start;
  }
};

/// A sample's part of the operands and results of a step.
struct SampleStep {
  std::int64_t elements, outputs;       // outputs: as many, and as many more of v if the variance is learned
  const float *x, *prediction, *drawn;  // drawn: may be null
  float *sample, *start, *mean, *log_variance;
};

void ancestral(const StepFactors& f, const SampleStep& s, bool clip) {
  const bool learned = s.outputs > s.elements;
  for (std::int64_t j = 0; j < s.elements; ++j) {
    const float share = learned ? (s.prediction[s.elements + j] + 1) / 2 : 0.0F;
    s.log_variance[j] = share * f.log_beta + (1 - share) * f.log_posterior;
    s.start[j] = f.start_of(s.x[j], s.prediction[j], clip);
    s.mean[j] = f.mean_of_start * s.start[j] + f.mean_of_sample * s.x[j];
    const float off = s.drawn == nullptr ? 0.0F : std::exp(0.5F * s.log_variance[j]) * s.drawn[j];
    s.sample[j] = s.mean[j] + off;
  }
}

void ddim(const StepFactors& f, const SampleStep& s, const ReverseOptions& options) {
  const float sigma = static_cast<float>(options.eta) * std::sqrt((1 - f.product_before) / (1 - f.product)) *
                      std::sqrt(1 - f.product / f.product_before);
  const float of_start = std::sqrt(f.product_before);
  const float of_noise = std::sqrt(std::max(1 - f.product_before - sigma * sigma, 0.0F));
  for (std::int64_t j = 0; j < s.elements; ++j) {
    s.start[j] = f.start_of(s.x[j], s.prediction[j], options.clip_start);
    const float noise = (f.per_signal * s.x[j] - s.start[j]) / f.per_noise;
    s.sample[j] = s.start[j] * of_start + of_noise * noise;
    if (s.drawn != nullptr) s.sample[j] += sigma * s.drawn[j];
  }
}

void check_operands(const Tensor& x, const Tensor& prediction, std::span<const std::int64_t> steps,
                    const Tensor& noise) {
  const auto refuse = [](std::string_view what, const std::string& expected, const std::string& found) {
    throw ShapeError(error_message("reverse_step", what, expected, found));
  };
  const std::int64_t outputs = prediction.numel();
  if (outputs != x.numel() && outputs != 2 * x.numel())
    refuse("prediction", "one or two numbers for each of x " + to_string(x.shape()),
           to_string(prediction.shape()));
  if (std::ssize(steps) != x.dim(0))
    refuse("steps", std::to_string(x.dim(0)) + ", one per sample", std::to_string(steps.size()));
  if (noise.defined() && noise.shape() != x.shape())
    refuse("noise", to_string(x.shape()) + " as x", to_string(noise.shape()));
}

}  // namespace

void add_noise(const NoiseStep& step, std::span<const float> start, std::span<const float> noise,
               std::span<float> to) {
  const auto signal = static_cast<float>(step.signal), of_noise = static_cast<float>(step.noise);
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = signal * start[j] + of_noise * noise[j];
}

void velocity_of(const NoiseStep& step, std::span<const float> start, std::span<const float> noise,
                 std::span<float> to) {
  const auto signal = static_cast<float>(step.signal), of_noise = static_cast<float>(step.noise);
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = signal * noise[j] - of_noise * start[j];
}

void noise_of_velocity(const NoiseStep& step, const Tensor& x, const Tensor& prediction) {
  if (x.shape() != prediction.shape())
    throw ShapeError(error_message("noise_of_velocity", "prediction", to_string(x.shape()),
                                   to_string(prediction.shape())));
  const auto signal = static_cast<float>(step.signal), of_noise = static_cast<float>(step.noise);
  const std::span<const float> sample = x.span<float>();
  const std::span<float> values = prediction.span<float>();
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = signal * values[j] + of_noise * sample[j];
}

void diffusion_factors(const NoiseStep& step, bool first, std::span<float> to) {
  to[kPerSignal] = static_cast<float>(step.per_signal);
  to[kPerNoise] = static_cast<float>(step.per_noise);
  to[kMeanOfStart] = static_cast<float>(step.mean_of_start);
  to[kMeanOfSample] = static_cast<float>(step.mean_of_sample);
  to[kLogBeta] = static_cast<float>(step.log_beta);
  to[kLogPosterior] = static_cast<float>(step.log_posterior);
  to[kFirstStep] = first ? 1.0F : 0.0F;
}

ReverseStep reverse_step(const NoiseSchedule& schedule, const Tensor& x, const Tensor& prediction,
                         std::span<const std::int64_t> steps, const Tensor& noise,
                         const ReverseOptions& options) {
  check_operands(x, prediction, steps, noise);
  const bool is_ancestral = options.kind == SamplerKind::kAncestral;
  MOH_CHECK(is_ancestral || options.kind == SamplerKind::kDdim, "reverse_step: ancestral or ddim");
  ReverseStep result{empty_like(x), empty_like(x), {}, {}};
  if (is_ancestral) result.mean = empty_like(x), result.log_variance = empty_like(x);
  const std::int64_t samples = x.dim(0), elements = samples > 0 ? x.numel() / samples : 0;
  const std::int64_t outputs = samples > 0 ? prediction.numel() / samples : 0;
  const auto own = [&](const Tensor& t, std::int64_t b) { return t.data<float>() + b * elements; };
  parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t step = steps[static_cast<std::size_t>(b)];
      const SampleStep s{elements,
                         outputs,
                         own(x, b),
                         prediction.data<float>() + b * outputs,
                         step > 0 && noise.defined() ? own(noise, b) : nullptr,
                         own(result.sample, b),
                         own(result.start, b),
                         is_ancestral ? own(result.mean, b) : nullptr,
                         is_ancestral ? own(result.log_variance, b) : nullptr};
      const StepFactors factors(schedule[step]);
      if (is_ancestral) {
        ancestral(factors, s, options.clip_start);
      } else {
        ddim(factors, s, options);
      }
    }
  });
  return result;
}

void guide(const Tensor& with, const Tensor& without, std::int64_t channels, double scale) {
  const std::int64_t samples = with.dim(0), outputs = samples > 0 ? with.numel() / samples : 0;
  const std::int64_t guided = channels * (samples > 0 ? outputs / with.dim(1) : 0);
  const auto factor = static_cast<float>(scale);
  for (std::int64_t b = 0; b < samples; ++b) {
    float* to = with.data<float>() + b * outputs;
    const float* base = without.data<float>() + b * outputs;
    for (std::int64_t j = 0; j < guided; ++j) to[j] = base[j] + factor * (to[j] - base[j]);
  }
}

}  // namespace moh
