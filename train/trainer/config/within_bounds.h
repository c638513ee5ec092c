#pragma once

#include "train/trainer/config/family_config.h"

namespace moh::config {

/// Whether the whole numbers of a family's configuration, and those of its lists, lie within the bounds of
/// their keys, as those that were read from a configuration do: for one that was made out of an untrusted
/// file.
bool within_bounds(FamilyConfig& family);

}  // namespace moh::config
