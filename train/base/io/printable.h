#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace moh {

/// The first UTF-8 character of a text that is not empty (Unicode 15, table 3-7: overlong forms, surrogates
/// and code points above U+10FFFF are invalid).
struct Utf8Front {
  std::size_t bytes = 0;  ///< number of bytes that belong to it; 0 if the first byte is invalid
  bool complete = false;  ///< false if the character is malformed, or truncated by the end of the text
};
Utf8Front utf8_front(std::string_view text);

/// Number of bytes of the first character of a text that is not empty; 0 if it is invalid.
std::size_t utf8_length(std::string_view text);

/// The first, and the last, character of a text that is not empty; an invalid byte counts as one.
std::string_view first_character(std::string_view text);
std::string_view last_character(std::string_view text);

bool is_utf8(std::string_view text);

/// Whether one complete character is a control character: U+0000 ... U+001F, U+007F ... U+009F.
bool is_control_character(std::string_view character);

/// Untrusted text made safe for a message: at most `limit` bytes, then "...", and every byte that is neither
/// printable ASCII nor part of valid UTF-8 as \xNN. A hostile name can neither flood a log nor send control
/// sequences to a terminal.
std::string printable(std::string_view text, std::size_t limit = 120);

/// A path as by printable(), but not shortened: file names may have any bytes.
std::string printable_path(const std::filesystem::path& path);

/// A message whose lines are as by printable(), but not shortened.
std::string printable_lines(std::string_view text);

/// Two hexadecimal digits for each byte.
std::string hex_digits(std::string_view bytes);

}  // namespace moh
