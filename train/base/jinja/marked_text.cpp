#include "train/base/jinja/marked_text.h"

namespace moh {

bool MarkedText::is_of_template(std::size_t begin, std::size_t end) const {
  const std::size_t given = authors_.find(static_cast<char>(TextAuthor::kInput), begin);
  return given == std::string::npos || given >= end;
}

void MarkedText::append(std::string_view bytes, TextAuthor author) {
  bytes_.append(bytes);
  authors_.append(bytes.size(), static_cast<char>(author));
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t end) {
  bytes_.append(other.bytes_, begin, end - begin);
  authors_.append(other.authors_, begin, end - begin);
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const {
  MarkedText text;
  text.append(*this, begin, end);
  return text;
}

std::vector<std::size_t> character_places(std::string_view text) {
  std::vector<std::size_t> places;
  places.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) places.push_back(i);
  }
  places.push_back(text.size());
  return places;
}

}  // namespace moh
