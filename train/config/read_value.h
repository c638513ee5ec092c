#pragma once

#include <string>

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/config/value.h"

namespace moh::config {

/// Reads one value into the field's target, or reports why not and leaves the target alone. `key` is the
/// field's whole key, for the messages. Returns whether it was read.
///
/// Truth values are true and false, numbers are decimal and finite (number_text.h); neither may be quoted.
/// Texts, paths and names may, and a plain 5 is a text where one is wanted. Nothing (null) is no value. A
/// path is taken as it stands, relative to the current folder; one that begins with ~ is refused, since only
/// a shell would expand it.
bool read_value(const Field& field, const Value& value, const std::string& key, Problems& problems);

}  // namespace moh::config
