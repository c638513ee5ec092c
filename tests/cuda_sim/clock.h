#pragma once

#include <chrono>
#include <cstdlib>

namespace moh::sim {

/// The time of the simulated device in milliseconds: what tests say that matrix multiplications take, and
/// kLaunchMilliseconds for a kernel.
inline double& device_clock() {
  static double now = 0;
  return now;
}

inline constexpr double kLaunchMilliseconds = 1e-3;

/// The time that events record: the device's, and a billionth of the host's, so that time advances, but
/// decides nothing, not even where the host is so busy that a kernel takes it seconds. With MOH_SIM_HOST_TIME
/// in the environment the host's time alone, for tests of tables of times.
inline double device_time() {
  static const bool of_host = std::getenv("MOH_SIM_HOST_TIME") != nullptr;
  const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now().time_since_epoch();
  return of_host ? host.count() : device_clock() + host.count() * 1e-9;
}

}  // namespace moh::sim
