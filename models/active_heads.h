#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/model.h"

namespace moh {

/// How many heads a model shares, routes and keeps, summed over layers.
struct HeadCounts {
  std::int64_t shared = 0;  ///< active for every token
  std::int64_t kept = 0;    ///< routed heads that a token keeps
  std::int64_t routed = 0;  ///< heads of which it keeps these
  std::int64_t layers = 0;
  bool alike = true;  ///< whether all layers have the counts of the first

  void add(std::int64_t layer_shared, std::int64_t layer_kept, std::int64_t layer_routed);
};

/// Counts of query heads, or of KV heads where groups are routed.
HeadCounts head_counts(std::span<const HeadRoutingOptions> layers);

/// "3 shared + 6 of 9 = 75%", of each layer if they are alike, otherwise of all together: "157 shared + 166
/// of 272 in 37 layers = 75.3%".
std::string describe(const HeadCounts& counts);

/// The active heads of a model in these words; "100%" if it is dense.
std::string describe_active_heads(const Model& model);

}  // namespace moh
