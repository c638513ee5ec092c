#pragma once

#include "train/config/fields.h"
#include "train/config/problems.h"

namespace moh::config {

/// Reads the values of one layer into the struct that `root` lists, and leaves fields that the layer does not
/// give as they are. Reports unknown keys (naming the nearest known one), values of the wrong type and values
/// out of bounds; those fields keep what they had.
void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems);

}  // namespace moh::config
