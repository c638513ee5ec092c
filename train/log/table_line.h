#pragma once

#include <iosfwd>

namespace moh {

/// One line of a table for people: a name, then what printf makes of the rest, up to 200 characters.
[[gnu::format(printf, 3, 4)]] void write_line(std::ostream& out, const char* name, const char* format, ...);

}  // namespace moh
