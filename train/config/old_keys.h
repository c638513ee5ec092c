#pragma once

#include <string>
#include <vector>

#include "train/config/value.h"

namespace moh::config {

/// Moves the values of keys that have another name today (model.moh.routed is model.moh.top_k) to where they
/// belong, in one layer, and says so in `notes`, a line each. Where the layer gives both, today's holds.
void move_old_keys(Value& layer, std::vector<std::string>& notes);

}  // namespace moh::config
