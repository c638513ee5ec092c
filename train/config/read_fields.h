#pragma once

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/config/value.h"

namespace moh::config {

/// Reads the values of one layer into the struct that `root` lists, and leaves fields that the layer does not
/// give as they are. Reports unknown keys (naming the nearest known one), values of the wrong type and values
/// out of bounds; those fields keep what they had.
///
/// Truth values are true and false, numbers are decimal and finite (number_text.h); neither may be quoted.
/// Texts, paths and names may, and a plain 5 is a text where one is wanted. Nothing (null) is no value. A
/// path is taken as it stands, relative to the current folder; one that begins with ~ is refused, since only
/// a shell would expand it.
void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems);

}  // namespace moh::config
