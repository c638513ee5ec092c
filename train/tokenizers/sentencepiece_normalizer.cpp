#include "train/tokenizers/sentencepiece_normalizer.h"

#include <cstring>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// A unit of the double array: the byte by which it is reached, where its children are, and whether one of
/// them is a leaf, which holds a value in place of these.
struct Unit {
  std::uint32_t bits;

  std::uint32_t label() const { return bits & 0x800000ffU; }
  std::uint32_t offset() const { return bits >> 10U << ((bits & 0x200U) >> 6U); }
  bool has_leaf() const { return (bits & 0x100U) != 0; }
  std::uint32_t value() const { return bits & 0x7fffffffU; }
};

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, std::string_view where) {
  if (bytes.empty()) return;
  std::uint32_t size = 0;
  const bool has_size = bytes.size() > sizeof size;
  if (has_size) std::memcpy(&size, bytes.data(), sizeof size);  // little-endian, as all hosts
  if (!has_size || size == 0 || size % 4 != 0 || size > bytes.size() - sizeof size || bytes.back() != '\0') {
    throw DataError(error_message(where, "normalizer_spec.precompiled_charsmap",
                                  "a double array and its replacements",
                                  std::to_string(bytes.size()) + " other bytes"));
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  replacements_ = bytes.substr(sizeof size + size);
}

std::optional<CharacterMap::Match> CharacterMap::match(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> longest;
  std::size_t node = Unit{units_[0]}.offset();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size()) break;
    const Unit unit{units_[node]};
    if (unit.label() != byte) break;
    node ^= unit.offset();
    if (!unit.has_leaf()) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = Unit{units_[node]}.value();
    // The last replacement, too, ends with a NUL.
    if (begin < replacements_.size()) longest = Match{i + 1, replacements_.data() + begin};
  }
  return longest;
}

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel& model,
                                                 const PieceTrie& user_defined, std::string_view where)
    : map_(model.rules, where),
      user_defined_(user_defined),
      adds_prefix_(model.adds_prefix),
      removes_extra_spaces_(model.removes_extra_spaces),
      space_(model.escapes_spaces ? "\u2581" : " ") {}

CharacterMap::Match SentencePieceNormalizer::first_unit(std::string_view text) const {
  if (!user_defined_.empty()) {
    if (const std::size_t size = user_defined_.longest_prefix(text); size > 0)
      return {size, text.substr(0, size)};
  }
  if (const auto rule = map_.match(text)) return *rule;
  const std::string_view character = first_character(text);
  return {character.size(), character};
}

void SentencePieceNormalizer::append(std::string_view text, std::string& result) const {
  for (const char c : text) {
    if (c == ' ')
      result += space_;
    else
      result += c;
  }
}

std::string SentencePieceNormalizer::operator()(std::string_view text, TextPlace place) const {
  std::string result;
  const bool begins = place == TextPlace::kBeginning;
  if (begins && removes_extra_spaces_) {
    while (!text.empty()) {
      const CharacterMap::Match unit = first_unit(text);
      if (unit.by != " ") break;
      text.remove_prefix(unit.bytes);
    }
  }
  if (text.empty()) return result;
  result.reserve(text.size() + text.size() / 4 + 4);
  if (begins && adds_prefix_) result += space_;
  bool after_space = begins && removes_extra_spaces_;
  while (!text.empty()) {
    const CharacterMap::Match unit = first_unit(text);
    std::string_view by = unit.by;
    while (after_space && by.starts_with(' ')) by.remove_prefix(1);
    append(by, result);
    if (!by.empty()) after_space = removes_extra_spaces_ && by.ends_with(' ');
    text.remove_prefix(unit.bytes);
  }
  while (removes_extra_spaces_ && result.ends_with(space_)) result.resize(result.size() - space_.size());
  return result;
}

}  // namespace moh
