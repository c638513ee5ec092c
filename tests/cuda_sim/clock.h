#pragma once

#include <chrono>
#include <cstdlib>

namespace moh::sim {

/// The time of the simulated device in milliseconds, as far as tests set it: what they say that products
/// take.
inline double& device_clock() {
  static double now = 0;
  return now;
}

/// What events record: that, and the host's time at a thousandth, so that time goes on, but decides nothing.
/// With MOH_SIM_HOST_TIME in the environment the host's time alone, for tests of tables of times.
inline double device_time() {
  static const bool of_host = std::getenv("MOH_SIM_HOST_TIME") != nullptr;
  const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now().time_since_epoch();
  return of_host ? host.count() : device_clock() + host.count() * 1e-3;
}

}  // namespace moh::sim
