#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/moh_config.h"

namespace moh {

/// The first `count` / kv_heads heads of each KV group, ascending.
std::vector<std::int64_t> first_of_groups(std::int64_t count, QueryGroups groups);

/// Reports what routing: within_groups has besides: counts and lists of a layer that are not the same for
/// each of its KV groups, and groups of one head. Parameters as of check() of models/layers/moh_config.h.
void check_within_groups(const MohConfig& config, std::int64_t layers, const PerLayer& heads,
                         std::int64_t kv_heads, ConfigFaults& faults);

}  // namespace moh
