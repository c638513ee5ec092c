#include "train/tokenizers/cut_text.h"

#include <algorithm>
#include <vector>

#include "core/function_ref.h"

namespace moh {

namespace {

constexpr std::size_t kSearched = 64 << 10;
constexpr std::size_t kAround = 1 << 10;  // bytes compared on either side of a place
constexpr int kTries = 32;                // of each kind of place

bool begins_character(std::string_view text, std::size_t place) {
  return place == text.size() || (static_cast<unsigned char>(text[place]) & 0xc0U) != 0x80U;
}

/// The next place from `place` on, upwards or downwards, where a character begins.
std::size_t character_from(std::string_view text, std::size_t place, int direction) {
  while (place > 0 && place < text.size() && !begins_character(text, place))
    place = direction > 0 ? place + 1 : place - 1;
  return place;
}

bool is_sound(const Tokenizer& tokenizer, std::string_view text, std::size_t place) {
  const std::size_t begin = character_from(text, place - std::min(place, kAround), -1);
  const std::size_t end = character_from(text, std::min(text.size(), place + kAround), 1);
  std::vector<TokenId> whole, parts;
  tokenizer.encode_rest(text.substr(begin, end - begin), whole);
  tokenizer.encode_rest(text.substr(begin, place - begin), parts);
  tokenizer.encode_rest(text.substr(place, end - place), parts);
  return whole == parts;
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// The last sound one of the places that are proposed, below `from`; 0: none.
std::size_t last_sound(const Tokenizer& tokenizer, std::string_view text, std::size_t from,
                       FunctionRef<bool(std::size_t place)> is_proposed) {
  const std::size_t least = std::max<std::size_t>(1, text.size() - std::min(text.size(), kSearched));
  int tries = 0;
  for (std::size_t place = from; place >= least && tries < kTries; --place) {
    if (!is_proposed(place)) continue;
    if (is_sound(tokenizer, text, place)) return place;
    ++tries;
  }
  return 0;
}

}  // namespace

std::size_t find_cut(const Tokenizer& tokenizer, std::string_view text) {
  if (tokenizer.encodes_in_pieces()) return text.size();
  if (text.size() < 2) return 0;
  // The text that follows is part of the comparison: the end of `text` is not the end of the whole text.
  const std::size_t from = text.size() - std::min(text.size() / 2, kAround);
  const auto between_words = [&](std::size_t place) {
    return (text[place] == ' ' || text[place] == '\n') && is_letter_or_digit(text[place - 1]);
  };
  const std::size_t cut = last_sound(tokenizer, text, from, between_words);
  if (cut > 0) return cut;
  // Within a row of blanks, or of one character, the merges on either side depend on how long the whole row
  // is.
  const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  return last_sound(tokenizer, text, from, [&](std::size_t place) {
    return begins_character(text, place) && text[place - 1] != text[place] && !is_blank(text[place - 1]);
  });
}

}  // namespace moh
