#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moh::config {

/// Parses a decimal integer of YAML 1.2: [-+]?(0|[1-9][0-9]*). Not accepted: leading zeros, which some
/// readers take for octal, 0x10, 1_000, 1e3 and 2.0. Empty if the text is no such integer or does not fit 64
/// bits.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// Parses a finite number: an integer as above, optionally with fraction and exponent (0.1, .5, 1e-4, 1.e+3).
/// Empty also for .nan and .inf, and if the value is outside the range of a double.
std::optional<double> parse_number(std::string_view text);

/// The shortest text that parse_number reads back to the same value; integers without a fraction.
std::string number_text(double value);

/// A suggestion for a text that is no integer, or no number: "write 10" for 010, 0x0a or 1_0, "write 4000000"
/// for 4M, "write 7200" for 2h if `unit` is "seconds". Empty if there is none.
std::string number_advice(std::string_view text, bool integer, std::string_view unit);

}  // namespace moh::config
