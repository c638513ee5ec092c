#pragma once

namespace moh::sim {

/// The time of the simulated device in milliseconds. Kernels take none; what events measure is what a test
/// says that products take.
inline double& device_clock() {
  static double now = 0;
  return now;
}

}  // namespace moh::sim
