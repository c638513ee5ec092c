#include "train/data/utf8_stream.h"

#include <cstddef>

namespace moh {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Bytes of the character that a lead byte announces; 0 for a byte that starts none.
std::size_t announced_length(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Whether `byte` may follow `lead`: excludes overlong forms, surrogates and code points past U+10FFFF
/// (Unicode 15, table 3-7).
bool may_follow_lead(unsigned lead, unsigned byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0 && byte <= 0xBF;
    case 0xED:
      return byte >= 0x80 && byte <= 0x9F;
    case 0xF0:
      return byte >= 0x90 && byte <= 0xBF;
    case 0xF4:
      return byte >= 0x80 && byte <= 0x8F;
    default:
      return byte >= 0x80 && byte <= 0xBF;
  }
}

/// Leading bytes of `text` that belong to its first character: all of it, or the well-formed part of a broken
/// or unfinished one. 0 when the first byte starts no character.
std::size_t well_formed_prefix(std::string_view text, std::size_t length) {
  if (length == 0) return 0;
  std::size_t count = 1;
  if (count < length && count < text.size() && may_follow_lead(byte_at(text, 0), byte_at(text, 1))) ++count;
  while (count >= 2 && count < length && count < text.size() && (byte_at(text, count) & 0xC0) == 0x80)
    ++count;
  return count;
}

bool is_control(std::string_view character) {
  const unsigned lead = byte_at(character, 0);
  if (character.size() == 1) return (lead < 0x20 && lead != '\n' && lead != '\t') || lead == 0x7F;
  return character.size() == 2 && lead == 0xC2 && byte_at(character, 1) < 0xA0;  // U+0080 ... U+009F
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t length = announced_length(byte_at(rest, 0));
    const std::size_t prefix = well_formed_prefix(rest, length);
    if (prefix == rest.size() && prefix < length) break;  // the next piece may complete it
    const bool complete = length > 0 && prefix == length;
    const std::string_view character = rest.substr(0, prefix == 0 ? 1 : prefix);
    text += complete && !is_control(character) ? character : kReplacement;
    rest.remove_prefix(character.size());
  }
  pending_ = std::string(rest);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace moh
