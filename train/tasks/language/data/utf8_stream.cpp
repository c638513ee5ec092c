#include "train/tasks/language/data/utf8_stream.h"

#include <cstddef>

#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_safe(std::string_view character) {
  return character == "\n" || character == "\t" || !is_control_character(character);
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (!front.complete && front.bytes == rest.size()) break;  // the next piece may complete it
    const std::string_view character = rest.substr(0, front.bytes == 0 ? 1 : front.bytes);
    text += front.complete && is_safe(character) ? character : kReplacement;
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
