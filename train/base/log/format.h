#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// "0:07", "12:34", "3:02:10", "2d 04:10" for a number of seconds; "-:--" if negative, above 1e9 or not
/// finite.
std::string format_duration(double seconds);
/// Three significant digits with a decimal prefix: "875", "12.3k", "4.56M"; "-" if not finite.
std::string format_count(double value);
/// "640 B", "12.3 MiB", "1.50 GiB".
std::string format_bytes(std::int64_t bytes);
/// Parses a size, 1 to 10^18 bytes: "24e9", "5GB" (5 000 000 000), "1.5 GiB" (1 610 612 736). Units: kB or
/// KB, MB, GB, TB, KiB, MiB, GiB, TiB. Nothing for other text.
std::optional<std::int64_t> parse_bytes(std::string_view text);
/// Fixed notation with `digits` digits after the point; "nan" and "inf" as such.
std::string format_fixed(double value, int digits);
/// Scientific notation with two digits after the point, for learning rates: "3.00e-04".
std::string format_scientific(double value);
/// Six significant digits, in the shorter notation: "2.30259", "1.5e-07"; "nan" without a sign, "inf".
std::string format_significant(double value);

}  // namespace moh
