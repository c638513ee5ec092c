#pragma once

#include <vector>

namespace moh {

/// The q-quantile (0 <= q <= 1) of a sample that is not empty, interpolated between its members.
double quantile(std::vector<double> sample, double q);

double median(const std::vector<double>& sample);

/// The median of a[i] / b[i]: of measurements that were made right after each other.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// Distance of the 10th and the 90th percentile, as a share of the median.
double relative_spread(const std::vector<double>& sample);

}  // namespace moh
