#pragma once

#include <string_view>

namespace moh {

/// Keys of `model.moh`, without the prefix `model.`, by which the checks of its parts name the values that
/// contradict each other (ConfigFaults adds where they stand).
inline constexpr std::string_view kMohActive = "moh.active", kMohNumShared = "moh.num_shared",
                                  kMohRouted = "moh.routed", kMohRouter = "moh.router",
                                  kMohRouting = "moh.routing", kMohSharedHeads = "moh.shared_heads",
                                  kMohTopK = "moh.top_k";

}  // namespace moh
