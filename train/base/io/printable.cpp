#include "train/base/io/printable.h"

#include <algorithm>

namespace moh {

Utf8Front utf8_front(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0) return {};
  // Limits of the second byte that exclude overlong forms, surrogates and code points above U+10FFFF.
  unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t count = 1;
  for (; count < length && count < text.size() && byte(count) >= least && byte(count) <= most; ++count) {
    least = 0x80;
    most = 0xBF;
  }
  return {count, count == length};
}

std::size_t utf8_length(std::string_view text) {
  const Utf8Front front = utf8_front(text);
  return front.complete ? front.bytes : 0;
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(utf8_length(text), 1));
}

std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return text.substr(begin);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_control_character(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F;
  return character.size() == 2 && character[0] == '\xC2' && character[1] < '\xA0';
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t i = 0;
  while (i < text.size() && i < limit) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control_character(text.substr(i, length))) {
      out += "\\x" + hex_digits(text.substr(i, 1));
      i += 1;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  if (i < text.size()) out += "...";
  return out;
}

std::string printable_path(const std::filesystem::path& path) {
  return printable(path.native(), std::string_view::npos);
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    lines += printable(text.substr(0, end), std::string_view::npos) + '\n';
  return lines + printable(text, std::string_view::npos);
}

std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

}  // namespace moh
