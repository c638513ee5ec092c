#pragma once

#include <cstdint>
#include <string>

namespace moh {

enum class NewRows { kMean, kNormal, kZeros };
enum class RouterStart { kZero, kRandom, kCalibrated };

/// What is measured on training data before a run begins from a dense checkpoint.
struct CalibrationConfig {
  std::int64_t batches = 8;
  std::int64_t mask_steps = 200;
  double mask_learning_rate = 0.1;
  double ridge = 1e-3;

  bool operator==(const CalibrationConfig&) const = default;
};

/// How a dense checkpoint becomes a Mixture-of-Head model, beyond the routing itself, which is model.moh.
struct InitMohConfig {
  RouterStart router_start = RouterStart::kCalibrated;
  double router_spread = 0.1;
  CalibrationConfig calibration;

  bool operator==(const InitMohConfig&) const = default;
};

/// The checkpoint that a run begins from.
struct InitConfig {
  std::string from;  ///< empty: random weights
  std::string part;
  NewRows new_rows = NewRows::kMean;
  InitMohConfig moh;

  bool operator==(const InitConfig&) const = default;
};

}  // namespace moh
