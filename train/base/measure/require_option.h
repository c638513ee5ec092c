#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace moh {

/// Throws ValueError, naming the command and its option, unless `condition` holds.
inline void require_option(bool condition, std::string_view command, std::string_view option,
                           std::string_view expected, std::string_view found) {
  if (!condition) throw ValueError(error_message(command, option, expected, found));
}
/// require_option() for a value that is a number.
template <class Number>
requires std::is_arithmetic_v<Number>
void require_option(bool condition, std::string_view command, std::string_view option,
                    std::string_view expected, Number found) {
  require_option(condition, command, option, expected, std::to_string(found));
}

}  // namespace moh
