#pragma once

#include <span>
#include <string>

#include "train/trainer/config/family_config.h"

namespace moh::config {

/// Sets fields of `to` to the values that they have in `from`, a configuration of the same family: numbers,
/// lists of them, counts of heads and choices. `keys` are whole keys: "model.vit.heads".
void copy_fields(const FamilyConfig& from, std::span<const std::string> keys, FamilyConfig& to);

}  // namespace moh::config
