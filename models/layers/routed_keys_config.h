#pragma once

#include <cstdint>

#include "models/config_faults.h"
#include "models/layers/moh_config.h"

namespace moh {

/// Reports what goes together with MohConfig::routed, and values that have no meaning without routed keys and
/// values. `groups` are those of the layers; kv_heads is 0 for a family that has no routed keys.
void check_routed_keys(const MohConfig& config, QueryGroups groups, ConfigFaults& faults);

}  // namespace moh
