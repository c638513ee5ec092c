#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/math_mode.h"
#include "models/layers/head_routing.h"
#include "models/layers/head_set.h"
#include "models/recompute_level.h"
#include "ops/moh/router_options.h"
#include "ops/rope/rope_scaling.h"
#include "train/config/name_alias.h"
#include "train/config/run_config.h"

/// The enumerators of configurations by name, in their order.
namespace moh {

std::span<const std::string_view> names_of(Precision);
std::span<const std::string_view> names_of(AttentionBackend);
std::span<const std::string_view> names_of(RopeScalingKind);
std::span<const std::string_view> names_of(RecomputeLevel);
std::span<const std::string_view> names_of(RouterKind);
/// kBinary has no name: it comes with RouterKind::kQueryNorm.
std::span<const std::string_view> names_of(GateScaling);
std::span<const std::string_view> names_of(StraightThrough);
std::span<const std::string_view> names_of(BalanceLoss);
std::span<const std::string_view> names_of(RouterPrecision);
std::span<const std::string_view> names_of(HeadRule);
std::span<const std::string_view> names_of(NewRows);
std::span<const std::string_view> names_of(RouterStart);
std::span<const std::string_view> names_of(OptimizerKind);
/// Those that YAML offers.
std::span<const std::string_view> names_of(LrSchedule::Kind);
std::span<const std::string_view> names_of(NonFinitePolicy);

/// Other spellings that YAML may use: fp32, bf16. What is printed has the names.
std::span<const config::NameAlias> aliases_of(Precision);
std::span<const config::NameAlias> aliases_of(AttentionBackend);

/// The name in YAML: name_of(Precision::kFloat32) is "float32".
template <class E>
std::string_view name_of(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

}  // namespace moh
