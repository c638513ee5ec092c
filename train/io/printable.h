#pragma once

#include <string>
#include <string_view>

namespace moh {

/// Text that came out of a file, fit for a message: at most `limit` bytes, then "...", and every byte that is
/// not printable ASCII or well-placed UTF-8 as \xNN. A hostile name can neither flood a log nor steer a
/// terminal.
std::string printable(std::string_view text, std::size_t limit = 120);

}  // namespace moh
