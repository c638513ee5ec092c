#include "train/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// The tokens that are found before, or after, normalising; the content of the latter is normalised as the
/// text is.
AddedTokens tokens_to_find(const BpeTokenizerParts& parts, bool normalized_ones) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : parts.added) {
    if (token.normalized != normalized_ones) continue;
    if (normalized_ones) token.content = normalized(parts.normalizers, token.content);
    tokens.push_back(std::move(token));
  }
  return AddedTokens(tokens);
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : parts_(std::move(parts)),
      in_text_(tokens_to_find(parts_, false)),
      in_normalized_(tokens_to_find(parts_, true)),
      bpe_(std::move(parts_.tables)) {}

void BpeTokenizer::encode_between(std::string_view text, bool first, TextPlace place,
                                  std::vector<TokenId>& ids) const {
  const auto encode_words = [&](std::string_view piece, bool piece_is_first) {
    pre_tokenize(parts_.pre_tokenizers, {piece, piece_is_first},
                 [&](const Piece& word) { bpe_.encode(word.text, ids); });
  };
  std::string changed;
  if (!parts_.normalizers.empty()) {
    changed = normalized(parts_.normalizers, text, place);
    text = changed;
  }
  const char* const begin = text.data();
  in_normalized_.split(text, [&](const TextOrToken& part) {
    if (part.token)
      ids.push_back(*part.token);
    else
      encode_words(part.text, first && place == TextPlace::kBeginning && part.text.data() == begin);
  });
}

void BpeTokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  encode_text(text, TextPlace::kBeginning, ids);
}

void BpeTokenizer::encode_rest(std::string_view text, std::vector<TokenId>& ids) const {
  encode_text(text, TextPlace::kMiddle, ids);
}

void BpeTokenizer::encode_text(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = with_valid_utf8(text);
    text = repaired;
  }
  const char* const begin = text.data();
  in_text_.split(text, [&](const TextOrToken& part) {
    if (part.token == kTokenWithoutId) refuse_token(part.text);
    if (part.token)
      ids.push_back(*part.token);
    else
      encode_between(part.text, part.text.data() == begin,
                     part.text.data() == begin ? place : TextPlace::kBeginning, ids);
  });
}

std::string_view BpeTokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    throw ValueError(error_message("tokenizer", "token id", "0 ... " + std::to_string(vocab_size() - 1),
                                   std::to_string(id)));
  }
  return parts_.bytes[static_cast<std::size_t>(id)];
}

std::string_view BpeTokenizer::special_text(TokenId id) const {
  if (!token_bytes(id).empty()) return {};
  const auto token = std::ranges::find(parts_.added, id, &AddedToken::id);
  return token == parts_.added.end() ? std::string_view() : token->content;
}

}  // namespace moh
