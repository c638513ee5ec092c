#include "ops/moh/head_masks.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "ops/moh/hard_concrete.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr double kSharpness = 10, kFirstShare = 0.99;

std::vector<double> numbers_of(const Tensor& x) {
  const Tensor wide = x.to(DType::kFloat64);
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

double unmasked(const std::vector<double>& log_alpha, double shift) {
  double sum = 0;
  for (const double value : log_alpha) sum += hard_concrete::probability_on(value + shift);
  return sum;
}

/// log_alpha of all heads; c by bisection.
std::vector<double> log_alpha_of(const std::vector<double>& scores, double count) {
  std::vector<double> log_alpha;
  double reach = 100;
  for (const double score : scores) {
    log_alpha.push_back(kSharpness * score);
    reach = std::max(reach, 100 + std::abs(log_alpha.back()));
  }
  double low = -reach, high = reach;
  for (int i = 0; i < 80; ++i)
    (unmasked(log_alpha, (low + high) / 2) < count ? low : high) = (low + high) / 2;
  for (double& value : log_alpha) value += high;
  return log_alpha;
}

/// d loss / d scores from d loss / d log_alpha: c moves so that the expected number stays.
std::vector<double> through_shift(std::vector<double> gradients, const std::vector<double>& log_alpha) {
  std::vector<double> slopes;
  for (const double value : log_alpha) {
    const double p = hard_concrete::probability_on(value);
    slopes.push_back(p * (1 - p));
  }
  const double all = std::accumulate(slopes.begin(), slopes.end(), 0.0),
               sum = std::accumulate(gradients.begin(), gradients.end(), 0.0);
  for (std::size_t h = 0; h < gradients.size(); ++h)
    gradients[h] = kSharpness * (gradients[h] - (all > 0 ? slopes[h] / all * sum : 0.0));
  return gradients;
}

}  // namespace

double first_unmasked(std::int64_t heads) {
  return kFirstShare * static_cast<double>(heads);
}

Variable head_masks(const Variable& scores, double count, std::span<const double> draws) {
  constexpr std::string_view kOp = "head_masks";
  Check check(kOp);
  check.floating("scores", scores).rank("scores", scores, 1);
  const std::int64_t heads = scores.dim(0);
  if (!(count > 0 && count < static_cast<double>(heads))) {
    throw ValueError(error_message(kOp, "count", "above 0, below the " + std::to_string(heads) + " heads",
                                   std::to_string(count)));
  }
  check.require(static_cast<std::int64_t>(draws.size()) == heads, "draws", "a number for each head",
                std::to_string(draws.size()));
  require_cpu(kOp, scores.value());
  if (dry_run()) {
    return record("head_masks", empty_like(scores.value()), {scores},
                  [](const Tensor& dz) -> Grads { return {empty_like(dz)}; });
  }
  const std::vector<double> log_alpha = log_alpha_of(numbers_of(scores.value()), count);
  std::vector<double> masks, slopes;
  for (std::size_t h = 0; h < log_alpha.size(); ++h) {
    const hard_concrete::Mask mask = hard_concrete::sample(log_alpha[h], draws[h]);
    masks.push_back(mask.z);
    slopes.push_back(mask.slope);
  }
  return record("head_masks", tensor_of<double>({heads}, masks).to(scores.dtype()), {scores},
                [log_alpha, slopes, heads](const Tensor& dz) -> Grads {
                  std::vector<double> gradients = numbers_of(dz);
                  for (std::size_t h = 0; h < gradients.size(); ++h) gradients[h] *= slopes[h];
                  gradients = through_shift(std::move(gradients), log_alpha);
                  return {tensor_of<double>({heads}, gradients).to(dz.dtype())};
                });
}

}  // namespace moh
