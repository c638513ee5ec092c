#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moh {

/// How heads are chosen that are not listed in the configuration.
enum class HeadRule {
  kFirst,         ///< the first heads
  kOutputNorm,    ///< largest mean output norm; this rule and the next are evaluated on calibration data
                  ///< before the model is made, and replaced by lists (train/heads/init/shared_heads.h)
  kLossIncrease,  ///< largest increase of the loss when the head is removed
};

inline constexpr std::string_view kHeadRuleNames[] = {"first", "output_norm", "loss_increase"};

/// The names of the rules in YAML, in the order of the enum.
constexpr std::span<const std::string_view> names_of(HeadRule) {
  return kHeadRuleNames;
}

/// A set of heads for each layer: by a rule, or listed, either once for every layer or layer by layer.
struct HeadSet {
  HeadRule rule = HeadRule::kFirst;             ///< applies unless heads are listed
  std::vector<std::int64_t> every;              ///< heads of every layer, unless `each` lists them
  std::vector<std::vector<std::int64_t>> each;  ///< empty, or a list per layer

  bool listed() const { return !every.empty() || !each.empty(); }
  /// Whether the rule has to be evaluated on data before the model is made.
  bool to_be_measured() const { return !listed() && rule != HeadRule::kFirst; }
  const std::vector<std::int64_t>& at(std::int64_t layer) const {
    return each.empty() ? every : each.at(static_cast<std::size_t>(layer));
  }

  bool operator==(const HeadSet&) const = default;
};

}  // namespace moh
