#pragma once

#include <string>
#include <string_view>

#include "train/tasks/language/benchmark/field_value.h"

namespace moh {

/// The value of an untrusted text that is JSON. Throws DataError, naming `where`, for a text that is no JSON,
/// nesting beyond 32 levels, and a key twice.
FieldValue parse_json_value(std::string_view text, const std::string& where);

}  // namespace moh
