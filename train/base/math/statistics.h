#pragma once

#include <vector>

namespace moh {

/// The q-quantile (0 <= q <= 1) of a sample that is not empty, interpolated linearly between its elements.
double quantile(std::vector<double> sample, double q);

double median(const std::vector<double>& sample);

/// The median of a[i] / b[i]. Pairs that were measured one right after the other share the machine's
/// fluctuations, which cancel in the ratio.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// (90th percentile - 10th percentile) / median.
double relative_spread(const std::vector<double>& sample);

}  // namespace moh
