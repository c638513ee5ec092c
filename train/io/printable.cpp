#include "train/io/printable.h"

namespace moh {

namespace {

void append_escaped(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

bool is_plain(unsigned char byte) {
  return byte >= 0x20 && byte < 0x7f;
}

/// Length of the UTF-8 sequence at the front of `text`, 0 when there is none. C1 controls count as none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead >= 0xf5 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return lead == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t i = 0;
  while (i < text.size() && i < limit) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = is_plain(byte) ? 1 : utf8_length(text.substr(i));
    if (length == 0) {
      append_escaped(out, byte);
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
