#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moh {

/// How heads are picked that nobody lists.
enum class HeadRule {
  kFirst,         ///< by their place
  kOutputNorm,    ///< the others are measured on data, which init.moh does (train/init/shared_heads.h)
  kLossIncrease,  //
  kLearned,       //
};
std::span<const std::string_view> names_of(HeadRule);

/// Heads of each layer: by a rule, or listed, the same ones in every layer or layer by layer.
struct HeadSet {
  HeadRule rule = HeadRule::kFirst;             ///< holds unless heads are listed
  std::vector<std::int64_t> every;              ///< of every layer, unless `each` lists them
  std::vector<std::vector<std::int64_t>> each;  ///< empty, or a list per layer

  bool listed() const { return !every.empty() || !each.empty(); }
  const std::vector<std::int64_t>& at(std::int64_t layer) const {
    return each.empty() ? every : each.at(static_cast<std::size_t>(layer));
  }

  bool operator==(const HeadSet&) const = default;
};

}  // namespace moh
