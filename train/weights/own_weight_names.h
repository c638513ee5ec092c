#pragma once

#include "train/weights/weight_names.h"

namespace moh {

/// For a family whose models only moh knows: no config.json is theirs, and none can be written.
const WeightNames& own_weight_names();

}  // namespace moh
