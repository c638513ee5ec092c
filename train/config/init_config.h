#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "train/config/head_set.h"
#include "train/config/moh_choices.h"
#include "train/config/per_layer.h"

namespace moh {

enum class NewRows { kMean, kNormal, kZeros };
enum class RouterStart { kZero, kRandom, kCalibrated };
std::span<const std::string_view> names_of(NewRows);
std::span<const std::string_view> names_of(RouterStart);

/// What is measured on training data before a run begins from a dense checkpoint.
struct CalibrationConfig {
  std::int64_t batches = 8;
  std::int64_t mask_steps = 200;
  double mask_learning_rate = 0.1;
  double ridge = 1e-3;

  bool operator==(const CalibrationConfig&) const = default;
};

/// The routing that a dense checkpoint gets. The first five are those of model.moh, which load_run_config
/// fills in from here.
struct InitMohConfig {
  RouterChoice router = RouterChoice::kNone;
  PerLayer shared;
  PerLayer routed_top_k;
  HeadSet shared_heads;
  StraightThroughChoice straight_through = StraightThroughChoice::kSelected;
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
