#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/math_mode.h"
#include "models/diffusion/flow_path.h"
#include "models/diffusion/objective.h"
#include "models/layers/attention_gate.h"
#include "models/layers/head_routing_options.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"
#include "models/vision/vit_config.h"
#include "ops/moh/router_options.h"
#include "ops/rope/rope_scaling.h"
#include "train/config/fields.h"
#include "train/trainer/config/run_config.h"

/// The names of the enumerators of configurations in YAML, in the order of the enums. HeadRule has its own
/// beside it, as the field lists know sets of heads.
namespace moh {

/// The first of E's enumerators, 0, 1, 2 ...; what follows the last name is empty.
template <class E>
struct EnumNames {
  std::array<std::string_view, 7> names;
};

inline constexpr std::tuple kEnumNames{
    EnumNames<Precision>{{"float32", "bfloat16"}},
    EnumNames<AttentionBackend>{{"auto", "native", "cudnn"}},
    EnumNames<RopeScalingKind>{{"none", "linear", "llama3", "yarn", "dynamic"}},
    EnumNames<RecomputeLevel>{{"none", "norms", "mlp", "attention", "[mlp, attention]", "layer"}},
    EnumNames<RoutedRows>{{"queries", "queries_keys_values"}},
    EnumNames<HeadPositions>{{"sequence", "head"}},
    EnumNames<AttentionGate>{{"none", "head", "element"}},
    EnumNames<GateScaling>{{"code", "paper"}},  // kBinary: RouterType::binary_gates
    EnumNames<BalanceLoss>{{"code", "paper", "shares", "cv"}},
    EnumNames<BalanceScope>{{"micro_batch", "global"}},
    EnumNames<BalanceLayers>{{"mean", "sum"}},
    EnumNames<RouterInit>{{"normal", "zeros"}},
    EnumNames<RouterPrecision>{{"same", "float32"}},
    EnumNames<StraightThrough>{{"none", "selected", "all"}},
    EnumNames<NewRows>{{"mean", "normal", "zeros"}},
    EnumNames<RouterStart>{{"zero", "random", "calibrated"}},
    EnumNames<TeacherKind>{{"twin", "source"}},
    EnumNames<UpdateRule>{{"adamw", "lion", "muon", "adafactor"}},
    EnumNames<LrSchedule::Kind>{
        {"cosine", "constant", "cosine_from_start", "inverse_sqrt", "linear", "sqrt"}},
    EnumNames<VitPooling>{{"class_token", "mean"}},
    EnumNames<SamplerKind>{{"auto", "ancestral", "ddim", "dpm++", "euler", "heun", "euler_maruyama"}},
    EnumNames<DiffusionObjective>{{"noise", "velocity", "flow"}},
    EnumNames<TimeSampling>{{"uniform", "logit_normal"}},
    EnumNames<FlowPath>{{"linear", "cosine"}},
    EnumNames<FlowDiffusion>{{"sigma", "sbdm", "constant"}},
    EnumNames<NonFinitePolicy>{{"stop", "skip"}},
    EnumNames<CommBackend>{{"auto", "nccl", "host"}},
};

template <class E>
requires std::is_enum_v<E>
constexpr std::span<const std::string_view> names_of(E) {
  const auto& names = std::get<EnumNames<E>>(kEnumNames).names;
  return {names.begin(), std::ranges::find(names, std::string_view())};
}

/// Aliases that YAML may use. Output has the names.
inline constexpr config::NameAlias kPrecisionAliases[] = {
    {"fp32", "float32"}, {"f32", "float32"}, {"bf16", "bfloat16"}};

constexpr std::span<const config::NameAlias> aliases_of(Precision) {
  return kPrecisionAliases;
}

/// The name in YAML: name_of(Precision::kFloat32) is "float32".
template <class E>
requires std::is_enum_v<E>
constexpr std::string_view name_of(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

}  // namespace moh
