#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace moh {

/// What a text, which is not empty, begins with as UTF-8 (Unicode 15, table 3-7: overlong forms, surrogates
/// and code points past U+10FFFF are none).
struct Utf8Front {
  std::size_t bytes = 0;  ///< that belong to its first character; 0 when the first byte begins none
  bool complete = false;  ///< whether the character is whole; otherwise it is broken, or the text ends in it
};
Utf8Front utf8_front(std::string_view text);

/// Bytes of the character that a text, which is not empty, begins with; 0 for none.
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// Whether a whole character is a control character: U+0000 ... U+001F, U+007F ... U+009F.
bool is_control_character(std::string_view character);

/// Text that came out of a file, fit for a message: at most `limit` bytes, then "...", and every byte that is
/// not printable ASCII or well-placed UTF-8 as \xNN. A hostile name can neither flood a log nor steer a
/// terminal.
std::string printable(std::string_view text, std::size_t limit = 120);

/// A path, whole, as printable() has it: files come with names of any bytes.
std::string printable_path(const std::filesystem::path& path);

/// A message of one line or more, each as printable() has it, whole.
std::string printable_lines(std::string_view text);

/// Two hexadecimal digits for each byte.
std::string hex_digits(std::string_view bytes);

}  // namespace moh
