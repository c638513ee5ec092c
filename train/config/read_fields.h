#pragma once

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/config/value.h"

namespace moh::config {

/// Reads the values of one layer into the struct of `root`; fields that the layer does not give keep their
/// values. Reports unknown keys (suggesting the nearest known one), values of the wrong type and values out
/// of bounds; these fields keep their values, too.
///
/// Booleans are true and false, numbers are decimal and finite (number_text.h); neither may be quoted. Texts,
/// paths and names may be, and an unquoted 5 is accepted as text. An empty value (null) is refused. A path is
/// used literally, relative to the current folder; one that begins with ~ is refused, as only a shell would
/// expand it.
void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems);

}  // namespace moh::config
