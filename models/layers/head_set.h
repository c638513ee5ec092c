#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moh {

/// How heads are picked that nobody lists.
enum class HeadRule {
  kFirst,         ///< the first ones
  kOutputNorm,    ///< those of the largest mean output; this and the rules below are measured on data before
                  ///< the model is made, which replaces them by lists (train/moh/init/shared_heads.h)
  kLossIncrease,  ///< those without which the loss grows most
  kLearned,       ///< those that trained hard-concrete masks keep
};

/// Heads of each layer: by a rule, or listed, the same ones in every layer or layer by layer.
struct HeadSet {
  HeadRule rule = HeadRule::kFirst;             ///< holds unless heads are listed
  std::vector<std::int64_t> every;              ///< of every layer, unless `each` lists them
  std::vector<std::vector<std::int64_t>> each;  ///< empty, or a list per layer

  bool listed() const { return !every.empty() || !each.empty(); }
  /// Whether a measurement has to list the heads first.
  bool to_be_measured() const { return !listed() && rule != HeadRule::kFirst; }
  const std::vector<std::int64_t>& at(std::int64_t layer) const {
    return each.empty() ? every : each.at(static_cast<std::size_t>(layer));
  }

  bool operator==(const HeadSet&) const = default;
};

}  // namespace moh
