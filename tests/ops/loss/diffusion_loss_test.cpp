#include "ops/loss/diffusion_loss.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct DiffusionLossSizes {
  std::int64_t samples, elements;
  bool has_variance = true;
};

/// Targets whose samples are of the first step, and of later ones, in turns. With `noise_counts` the bound
/// depends on the predicted noise, which has no gradient through it. Variances are so large that no
/// likelihood is a difference of nearly equal numbers.
DiffusionTargets some_diffusion_targets(const DiffusionLossSizes& s, bool noise_counts) {
  DiffusionTargets t{uniform({s.samples, s.elements}, -1.2, 1.2, 2),
                     uniform({s.samples, s.elements}, -0.5, 0.5, 3), normal({s.samples, s.elements}, 4),
                     uniform({s.samples, kDiffusionFactors}, 0.2, 0.8, 5)};
  for (double& x : t.start.span<double>()) x = std::clamp(x, -1.0, 1.0);
  for (std::int64_t b = 0; b < s.samples; ++b) {
    double* row = t.factors.data<double>() + b * kDiffusionFactors;
    if (!noise_counts) row[kPerNoise] = 0;
    row[kLogPosterior] = -0.7 - row[kLogPosterior];
    row[kLogBeta] = 0.5 - row[kLogBeta];
    row[kFirstStep] = b % 2 == 0 ? 1 : 0;
  }
  return t;
}

DiffusionTargets like(const DiffusionTargets& t, const Variable& prediction) {
  const auto moved = [&](const Tensor& x) {
    return x.to(accumulate_dtype(prediction.dtype())).to(prediction.device());
  };
  return {moved(t.start), moved(t.sample), moved(t.noise), moved(t.factors)};
}

double distribution(double x) {
  return 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// The bound of an element, as the paper writes it.
double bound_of(double start, double sample, double noise, double v, const double* f) {
  const double share = (v + 1) / 2, log_variance = share * f[kLogBeta] + (1 - share) * f[kLogPosterior];
  const auto mean_of = [&](double x) { return f[kMeanOfStart] * x + f[kMeanOfSample] * sample; };
  const double mean = mean_of(f[kPerSignal] * sample - f[kPerNoise] * noise);
  if (f[kFirstStep] == 0) {
    const double variance = std::exp(f[kLogPosterior]), own = std::exp(log_variance);
    const double off = mean_of(start) - mean;
    return (0.5 * (std::log(own / variance) - 1) + (variance + off * off) / (2 * own)) / std::numbers::ln2;
  }
  const double deviation = std::exp(0.5 * log_variance);
  const double high = distribution((start + 1.0 / 255 - mean) / deviation),
               low = distribution((start - 1.0 / 255 - mean) / deviation);
  const double p = start < -0.999 ? high : start > 0.999 ? 1 - low : high - low;
  return -std::log2(std::max(p, 1e-12));
}

std::vector<Tensor> diffusion_loss_reference(const Tensor& prediction, const DiffusionLossSizes& s,
                                             const DiffusionTargets& t, double normalizer) {
  double total = 0;
  Tensor errors = zeros({s.samples}, DType::kFloat64), bounds = zeros({s.samples}, DType::kFloat64);
  for (std::int64_t b = 0; b < s.samples; ++b) {
    const double* own = prediction.data<double>() + b * s.elements * (s.has_variance ? 2 : 1);
    double squares = 0, bits = 0;
    for (std::int64_t j = 0; j < s.elements; ++j) {
      const std::int64_t at = b * s.elements + j;
      squares += std::pow(t.noise.data<double>()[at] - own[j], 2);
      if (s.has_variance)
        bits += bound_of(t.start.data<double>()[at], t.sample.data<double>()[at], own[j], own[s.elements + j],
                         t.factors.data<double>() + b * kDiffusionFactors);
    }
    errors.data<double>()[b] = squares / static_cast<double>(s.elements);
    bounds.data<double>()[b] = bits / static_cast<double>(s.elements);
    total += errors.data<double>()[b] + bounds.data<double>()[b];
  }
  return {full({}, total / normalizer, DType::kFloat64), errors, bounds};
}

Shape predictions_of(const DiffusionLossSizes& s) {
  return {s.samples, s.elements * (s.has_variance ? 2 : 1)};
}

}  // namespace

OP_CASES(diffusion_loss) {
  OpCases cases;
  for (const DiffusionLossSizes& s :
       {DiffusionLossSizes{1, 1}, DiffusionLossSizes{0, 4}, DiffusionLossSizes{2, 7},
        DiffusionLossSizes{3, 300}, DiffusionLossSizes{4, 33, false}}) {
    const DiffusionTargets targets = some_diffusion_targets(s, /*noise_counts=*/false);
    cases.push_back(
        {.name = to_string(predictions_of(s)) + (s.has_variance ? "" : " without variance"),
         .inputs = {uniform(predictions_of(s), -1.0, 1.0)},
         .run =
             [=](const Inputs& in) { return Outputs{diffusion_loss(in[0], like(targets, in[0]), 3.0).loss}; },
         .reference =
             [=](const std::vector<Tensor>& in) {
               return std::vector<Tensor>{diffusion_loss_reference(in[0], s, targets, 3.0)[0]};
             },
         .units = 64});
  }
  return cases;
}

TEST_CASE("ops: diffusion_loss: the parts of each sample, and a bound that trains the variance alone") {
  const DiffusionLossSizes s{4, 9};
  const DiffusionTargets targets = some_diffusion_targets(s, /*noise_counts=*/true);
  Variable prediction(uniform(predictions_of(s), -1.0, 1.0), true);
  const DiffusionLoss result = diffusion_loss(prediction, targets, 2.0);
  const std::vector<Tensor> expected = diffusion_loss_reference(prediction.value(), s, targets, 2.0);
  CHECK(result.loss.value().item() == Approx(expected[0].item()).epsilon(1e-12));
  for (std::int64_t b = 0; b < s.samples; ++b) {
    CHECK(result.squared_error.data<double>()[b] == Approx(expected[1].data<double>()[b]).epsilon(1e-12));
    CHECK(result.bound.data<double>()[b] == Approx(expected[2].data<double>()[b]).epsilon(1e-12));
  }
  result.loss.backward();
  const auto numeric = [&](std::int64_t i) {
    constexpr double kStep = 1e-6;
    const auto at = [&](double step) {
      const Tensor moved = prediction.value().clone();
      moved.data<double>()[i] += step;
      return diffusion_loss_reference(moved, s, targets, 2.0)[0].item();
    };
    return (at(kStep) - at(-kStep)) / (2 * kStep);
  };
  for (std::int64_t i = 0; i < prediction.numel(); ++i) {
    const std::int64_t b = i / (2 * s.elements), j = i % (2 * s.elements);
    const double off = prediction.value().data<double>()[i] -
                       (j < s.elements ? targets.noise.data<double>()[b * s.elements + j] : 0);
    const double of_noise = 2 * off / static_cast<double>(s.elements) / 2.0;
    CHECK(prediction.grad().data<double>()[i] ==
          Approx(j < s.elements ? of_noise : numeric(i)).epsilon(1e-5).margin(1e-9));
  }
}

TEST_CASE("ops: diffusion_loss refuses what does not fit") {
  const DiffusionLossSizes s{2, 3};
  const DiffusionTargets targets = some_diffusion_targets(s, true);
  const Variable prediction(normal(predictions_of(s)));
  CHECK_NOTHROW(diffusion_loss(prediction, targets));
  CHECK_THROWS_AS(diffusion_loss(Variable(normal({2, 5})), targets), ShapeError);
  CHECK_THROWS_AS(diffusion_loss(Variable(normal({3, 6})), targets), ShapeError);
  CHECK_THROWS_AS(diffusion_loss(prediction, targets, 0), ValueError);
  DiffusionTargets other = targets;
  other.factors = zeros({2, 3}, DType::kFloat64);
  CHECK_THROWS_AS(diffusion_loss(prediction, other), ShapeError);
  other = targets;
  other.noise = targets.noise.to(DType::kFloat32);
  CHECK_THROWS_AS(diffusion_loss(prediction, other), DTypeError);
  other.noise = Tensor();
  CHECK_THROWS_AS(diffusion_loss(prediction, other), ValueError);
}
