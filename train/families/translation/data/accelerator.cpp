#include "train/families/translation/data/accelerator.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace moh {

namespace {

constexpr std::string_view kSpaces = " \t\n";

bool is_letter_or_digit(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte | 0x20U) - 'a' < 26U || byte - unsigned{'0'} < 10U || byte >= 0x80;
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

/// The place of the only `mark` of a text, if it stands before a letter or digit.
std::optional<std::size_t> only_mark(std::string_view text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos || text.find(mark, at + 1) != std::string_view::npos) return std::nullopt;
  if (at + 1 == text.size() || !is_letter_or_digit(text[at + 1])) return std::nullopt;
  return at;
}

/// A word of a text, between spaces.
struct Word {
  std::string_view text;
  std::size_t mark = 0;  ///< place in `text`
};
Word word_around(std::string_view text, std::size_t at) {
  const std::size_t space = text.find_last_of(kSpaces, at);
  const std::size_t begin = space == std::string_view::npos ? 0 : space + 1;
  const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
  return {text.substr(begin, end - begin), at - begin};
}

/// A word such as FILE_NAME or &lt; whose mark is part of its spelling.
bool is_spelt_so(const Word& word) {
  if (word.mark > 0 && std::ranges::none_of(word.text, is_lower)) return true;
  const std::string_view after = word.text.substr(word.mark + 1);
  const auto* const end = std::ranges::find_if_not(after, is_letter_or_digit);
  return word.text[word.mark] == '&' && end != after.end() && *end == ';';
}

void remove_mark(std::string& text, std::size_t at) {
  const bool is_apart =
      at > 0 && text[at - 1] == '(' && at + 2 < text.size() && text[at + 2] == ')' && at - 1 > 0;
  if (is_apart)
    text.erase(at - 1, 4);
  else
    text.erase(at, 1);
}

bool remove_mark_of(TextPair& pair, char mark) {
  const std::optional<std::size_t> source = only_mark(pair.source, mark);
  const std::optional<std::size_t> target = only_mark(pair.target, mark);
  if (!source || !target) return false;
  const Word from = word_around(pair.source, *source), to = word_around(pair.target, *target);
  if (is_spelt_so(from) || (from.text == to.text && *source > 0)) return false;
  remove_mark(pair.source, *source);
  remove_mark(pair.target, *target);
  return true;
}

}  // namespace

void remove_accelerator(TextPair& pair) {
  if (!remove_mark_of(pair, '_')) remove_mark_of(pair, '&');
}

}  // namespace moh
