#include "train/run/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace moh {

namespace {

/// A window of numbers that hardly differ says nothing about the size of a spike.
constexpr double kLeastDeviation = 0.01;  // of the mean

double limit_of(const std::vector<double>& window, double deviations, std::int64_t length) {
  if (deviations == 0 || std::ssize(window) < length) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(window.size());
  double mean = 0, square = 0;
  for (const double value : window) mean += value / count;
  for (const double value : window) square += (value - mean) * (value - mean) / count;
  return mean + deviations * std::max(std::sqrt(square), kLeastDeviation * std::abs(mean));
}

void append(std::vector<double>& window, double value, std::int64_t length) {
  window.push_back(value);
  const std::int64_t surplus = std::ssize(window) - length;
  if (surplus > 0) window.erase(window.begin(), window.begin() + surplus);
}

}  // namespace

UpdateLimits SpikeGuard::limits() const {
  return {limit_of(state_.recent_losses, config_.loss, config_.window),
          limit_of(state_.recent_grad_norms, config_.grad_norm, config_.window)};
}

void SpikeGuard::add(double loss, double grad_norm) {
  if (!is_on()) return;
  append(state_.recent_losses, loss, config_.window);
  append(state_.recent_grad_norms, grad_norm, config_.window);
}

}  // namespace moh
