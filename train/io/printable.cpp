#include "train/io/printable.h"

#include "train/io/utf8.h"

namespace moh {

namespace {

void append_escaped(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t i = 0;
  while (i < text.size() && i < limit) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control_character(text.substr(i, length))) {
      append_escaped(out, static_cast<unsigned char>(text[i]));
      i += 1;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  if (i < text.size()) out += "...";
  return out;
}

}  // namespace moh
