#pragma once

#include <span>
#include <string_view>

namespace moh {

enum class RouterChoice { kNone, kLearned, kQueryNorm };
enum class GateScalingChoice { kCode, kPaper };
enum class StraightThroughChoice { kNone, kSelected, kAll };
std::span<const std::string_view> names_of(RouterChoice);
std::span<const std::string_view> names_of(GateScalingChoice);
std::span<const std::string_view> names_of(StraightThroughChoice);

}  // namespace moh
