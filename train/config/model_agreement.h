#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "train/config/family_config.h"
#include "train/config/fields.h"

namespace moh {

/// Fields of two `model` sections of one family that differ, but for the keys in `free` and what stands below
/// them.
std::vector<ModelDisagreement> disagreements_of(const config::Section& ours, const config::Section& source,
                                                std::span<const std::string_view> free);

}  // namespace moh
