#pragma once

#include <string>
#include <vector>

#include "train/config/value.h"

namespace moh::config {

/// Moves the values of renamed keys of a layer (model.moh.routed is now model.moh.top_k) to the new keys, and
/// adds a line for each to `notes`. If the layer has both, the value of the new key counts.
void move_old_keys(Value& layer, std::vector<std::string>& notes);

}  // namespace moh::config
