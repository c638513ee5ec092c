#include "train/base/math/statistics.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace moh {

double quantile(std::vector<double> sample, double q) {
  MOH_CHECK(!sample.empty() && q >= 0.0 && q <= 1.0, "a quantile needs a sample, and q in [0, 1]");
  std::sort(sample.begin(), sample.end());
  const double place = q * static_cast<double>(sample.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sample.size() - 1);
  return sample[below] + (place - static_cast<double>(below)) * (sample[above] - sample[below]);
}

double median(const std::vector<double>& sample) {
  return quantile(sample, 0.5);
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  MOH_CHECK(a.size() == b.size(), "as many measurements of a as of b");
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

double relative_spread(const std::vector<double>& sample) {
  return (quantile(sample, 0.9) - quantile(sample, 0.1)) / median(sample);
}

}  // namespace moh
