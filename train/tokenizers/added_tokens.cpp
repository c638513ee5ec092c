#include "train/tokenizers/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

utf8proc_int32_t code_point(std::string_view character) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

/// \w of Unicode regular expressions: letters, marks, decimal digits, letter numbers and connectors.
bool is_word(std::string_view character) {
  switch (utf8proc_category(code_point(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return character == "\u200c" || character == "\u200d";  // they join letters
  }
}

/// The property White_Space.
bool is_space(std::string_view character) {
  const utf8proc_int32_t code = code_point(character);
  if ((code >= 0x9 && code <= 0xd) || code == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

std::size_t space_at_end(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty() && is_space(last_character(text))) text.remove_suffix(last_character(text).size());
  return size - text.size();
}

std::size_t space_at_begin(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty() && is_space(first_character(text))) text.remove_prefix(first_character(text).size());
  return size - text.size();
}

bool stands_alone(std::string_view before, std::string_view after) {
  return (before.empty() || !is_word(last_character(before))) &&
         (after.empty() || !is_word(first_character(after)));
}

}  // namespace

void refuse_token(std::string_view content) {
  throw DataError(
      error_message("tokenizer", "text", "tokens of the tokenizer's own file",
                    "'" + printable(content) +
                        "', which tokenizer_config.json, special_tokens_map.json or added_tokens.json "
                        "adds to it",
                    "use the model's tokenizer.json, which has its id"));
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) : begins_(256, 0) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    std::int32_t node = 0;
    for (const char byte : token.content) {
      std::int32_t child = child_of(node, byte);
      if (child < 0) {
        child = static_cast<std::int32_t>(nodes_.size());
        nodes_.push_back({-1, -1, nodes_[static_cast<std::size_t>(node)].first_child, byte});
        nodes_[static_cast<std::size_t>(node)].first_child = child;
      }
      node = child;
    }
    begins_[static_cast<unsigned char>(token.content[0])] = 1;
    nodes_[static_cast<std::size_t>(node)].token = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(token);
  }
}

std::int32_t AddedTokens::child_of(std::int32_t node, char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].first_child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte)
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  return child;
}

std::int32_t AddedTokens::longest_at(std::string_view text, std::size_t begin) const {
  std::int32_t longest = -1;
  std::int32_t node = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    node = child_of(node, text[i]);
    if (node < 0) break;
    const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
    if (token >= 0) longest = token;
  }
  return longest;
}

void AddedTokens::split(std::string_view text, FunctionRef<void(const TextOrToken&)> emit,
                        Accepts accepts) const {
  std::size_t emitted = 0;  // where the part that is not emitted yet begins
  for (std::size_t i = 0; i < text.size() && !tokens_.empty();) {
    const std::int32_t found = begins_[static_cast<unsigned char>(text[i])] != 0 ? longest_at(text, i) : -1;
    if (found < 0 || !accepts(tokens_[static_cast<std::size_t>(found)], i,
                              i + tokens_[static_cast<std::size_t>(found)].content.size())) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found)];
    // The last token may have taken the white space that this one begins with.
    std::size_t begin = std::max(i, emitted), end = i + token.content.size();
    const std::string_view before = text.substr(0, i);
    i = end;
    if (token.single_word && !stands_alone(before, text.substr(end))) continue;
    if (token.strips_left) begin -= space_at_end(text.substr(emitted, begin - emitted));
    if (token.strips_right) end += space_at_begin(text.substr(end));
    if (begin > emitted) emit({text.substr(emitted, begin - emitted), std::nullopt});
    emit({text.substr(begin, end - begin), token.id});
    emitted = end;
  }
  if (emitted < text.size()) emit({text.substr(emitted), std::nullopt});
}

}  // namespace moh
