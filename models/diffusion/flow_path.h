#pragma once

#include <span>

namespace moh {

/// The path x_t = signal x + noise eps of a flow, from noise at t = 0 to data at t = 1, as SiT orients it
/// (Ma et al. 2024, arXiv 2401.08740).
enum class FlowPath {
  kLinear,  ///< signal t, noise 1 - t
  kCosine,  ///< signal sin(pi t / 2), noise cos(pi t / 2): SiT's GVP, whose x_t has a constant variance
};

/// The coefficient w of the noise that SamplerKind::kEulerMaruyama adds: dx = (v + w score) dt + sqrt(2 w)
/// dW, which has the distributions of the flow for every w >= 0.
enum class FlowDiffusion {
  kSigma,     ///< the path's noise
  kSbdm,      ///< that of score-based models: noise (noise signal_slope / signal - noise_slope)
  kConstant,  ///< 1
};

/// The numbers of a path at a time; slopes are derivatives by t.
struct FlowPoint {
  double signal = 0, noise = 1, signal_slope = 0, noise_slope = 0;

  /// The ratio of noise to signal; infinite at t = 0.
  double level() const { return noise / signal; }
};

FlowPoint point_of(FlowPath path, double t);

/// A sample of the training at a point: x_t of the data and the noise, and its velocity dx_t/dt =
/// signal_slope x + noise_slope eps, which the model is to predict. All of one size.
void move_along(const FlowPoint& point, std::span<const float> data, std::span<const float> noise,
                std::span<float> sample, std::span<float> velocity);

}  // namespace moh
