#include "train/config/enum_names.h"

namespace moh {

namespace {

constexpr std::string_view kPrecisionNames[] = {"float32", "bfloat16"};
constexpr std::string_view kAttentionBackendNames[] = {"auto", "native", "cudnn"};
constexpr std::string_view kRopeScalingNames[] = {"none", "linear", "llama3"};
constexpr std::string_view kRecomputeNames[] = {"none", "layer"};
constexpr std::string_view kRouterNames[] = {"none", "learned", "query_norm"};
constexpr std::string_view kGateScalingNames[] = {"code", "paper"};
constexpr std::string_view kBalanceLossNames[] = {"code", "paper"};
constexpr std::string_view kRouterPrecisionNames[] = {"same", "float32"};
constexpr std::string_view kStraightThroughNames[] = {"none", "selected", "all"};
constexpr std::string_view kHeadRuleNames[] = {"first", "output_norm", "loss_increase", "learned"};
constexpr std::string_view kNewRowsNames[] = {"mean", "normal", "zeros"};
constexpr std::string_view kRouterStartNames[] = {"zero", "random", "calibrated"};
constexpr std::string_view kOptimizerNames[] = {"adamw"};
constexpr std::string_view kScheduleNames[] = {"cosine", "constant"};
constexpr std::string_view kNonFiniteNames[] = {"stop", "skip"};
constexpr config::NameAlias kPrecisionAliases[] = {
    {"fp32", "float32"}, {"f32", "float32"}, {"bf16", "bfloat16"}};
constexpr config::NameAlias kAttentionBackendAliases[] = {{"moh", "native"}};

}  // namespace

std::span<const std::string_view> names_of(Precision) {
  return kPrecisionNames;
}
std::span<const std::string_view> names_of(AttentionBackend) {
  return kAttentionBackendNames;
}
std::span<const std::string_view> names_of(RopeScalingKind) {
  return kRopeScalingNames;
}
std::span<const std::string_view> names_of(RecomputeLevel) {
  return kRecomputeNames;
}
std::span<const std::string_view> names_of(RouterKind) {
  return kRouterNames;
}
std::span<const std::string_view> names_of(GateScaling) {
  return kGateScalingNames;
}
std::span<const std::string_view> names_of(StraightThrough) {
  return kStraightThroughNames;
}
std::span<const std::string_view> names_of(BalanceLoss) {
  return kBalanceLossNames;
}
std::span<const std::string_view> names_of(RouterPrecision) {
  return kRouterPrecisionNames;
}
std::span<const std::string_view> names_of(HeadRule) {
  return kHeadRuleNames;
}
std::span<const std::string_view> names_of(NewRows) {
  return kNewRowsNames;
}
std::span<const std::string_view> names_of(RouterStart) {
  return kRouterStartNames;
}
std::span<const std::string_view> names_of(OptimizerKind) {
  return kOptimizerNames;
}
std::span<const std::string_view> names_of(LrSchedule::Kind) {
  return kScheduleNames;
}
std::span<const std::string_view> names_of(NonFinitePolicy) {
  return kNonFiniteNames;
}
std::span<const config::NameAlias> aliases_of(Precision) {
  return kPrecisionAliases;
}
std::span<const config::NameAlias> aliases_of(AttentionBackend) {
  return kAttentionBackendAliases;
}

}  // namespace moh
