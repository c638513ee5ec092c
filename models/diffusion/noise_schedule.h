#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moh {

/// The numbers that the diffusion process needs for one of its steps (Ho et al. 2020, arXiv 2006.11239), with
/// a_t the product of all 1 - beta up to step t.
struct NoiseStep {
  std::int64_t trained_step = 0;  ///< its number in the process that the model is trained for
  double beta = 0;
  double product = 0;         ///< a_t
  double product_before = 1;  ///< a_(t-1), 1 before the first step
  double signal = 0;          ///< sqrt(a_t): x_t = signal x_0 + noise eps
  double noise = 0;           ///< sqrt(1 - a_t)
  double per_signal = 0;      ///< sqrt(1 / a_t): x_0 = per_signal x_t - per_noise eps
  double per_noise = 0;       ///< sqrt(1 / a_t - 1)
  double mean_of_start = 0;   ///< the posterior's mean is mean_of_start x_0 + mean_of_sample x_t
  double mean_of_sample = 0;
  double posterior_variance = 0;  ///< 0 in the first step
  double log_beta = 0;
  double log_posterior = 0;  ///< log(posterior_variance); in the first step that of the second
};

/// A diffusion process, step by step, in float64.
class NoiseSchedule {
 public:
  /// `steps` steps, beta growing linearly from 1e-4 to 0.02 (the process of DiT has 1000).
  static NoiseSchedule linear(std::int64_t steps);
  /// The process that visits only the steps `kept`, ascending, of this one: its betas are those between their
  /// products (Nichol & Dhariwal 2021, arXiv 2102.09672). Throws ValueError for other numbers.
  NoiseSchedule respaced(const std::vector<std::int64_t>& kept) const;

  std::int64_t size() const { return static_cast<std::int64_t>(steps_.size()); }
  const NoiseStep& operator[](std::int64_t step) const { return steps_.at(static_cast<std::size_t>(step)); }

 private:
  NoiseSchedule(const std::vector<double>& products, const std::vector<std::int64_t>& trained_steps);

  std::vector<NoiseStep> steps_;
};

/// `count` of `all` steps, evenly: the first, the last, and those nearest to equal strides between them.
/// Throws ValueError unless 1 <= count <= all.
std::vector<std::int64_t> even_steps(std::int64_t all, std::int64_t count);

/// Steps by a text, as guided-diffusion writes them: "250" of all steps; "10,15,20" of as many equal
/// sections; "ddim50" with a whole stride. Throws ValueError.
std::vector<std::int64_t> steps_of(std::string_view text, std::int64_t all);

}  // namespace moh
