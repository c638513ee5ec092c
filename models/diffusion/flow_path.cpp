#include "models/diffusion/flow_path.h"

#include <cmath>
#include <cstddef>
#include <numbers>

namespace moh {

FlowPoint point_of(FlowPath path, double t) {
  if (path == FlowPath::kLinear) return {.signal = t, .noise = 1 - t, .signal_slope = 1, .noise_slope = -1};
  constexpr double kQuarter = std::numbers::pi / 2;
  const double sine = std::sin(kQuarter * t), cosine = std::cos(kQuarter * t);
  return {
      .signal = sine, .noise = cosine, .signal_slope = kQuarter * cosine, .noise_slope = -kQuarter * sine};
}

void move_along(const FlowPoint& point, std::span<const float> data, std::span<const float> noise,
                std::span<float> sample, std::span<float> velocity) {
  const auto signal = static_cast<float>(point.signal), of_noise = static_cast<float>(point.noise);
  const auto up = static_cast<float>(point.signal_slope), down = static_cast<float>(point.noise_slope);
  for (std::size_t j = 0; j < sample.size(); ++j) {
    const float x = data[j], eps = noise[j];
    sample[j] = signal * x + of_noise * eps;
    velocity[j] = up * x + down * eps;
  }
}

}  // namespace moh
