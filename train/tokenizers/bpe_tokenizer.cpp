#include "train/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <iterator>
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

AddedTokens special_normalized_tokens(const BpeTokenizerParts& parts) {
  std::vector<AddedToken> tokens;
  std::ranges::copy_if(parts.added, std::back_inserter(tokens),
                       [](const AddedToken& token) { return token.special && token.normalized; });
  return AddedTokens(tokens);
}

constexpr auto kTrustsAll = [](std::size_t /*begin*/, std::size_t /*end*/) { return true; };

}  // namespace

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : parts_(std::move(parts)),
      in_text_(tokens_to_find(parts_, false)),
      in_normalized_(tokens_to_find(parts_, true)),
      special_normalized_(special_normalized_tokens(parts_)),
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
  encode_text(text, TextPlace::kBeginning, kTrustsAll, ids);
}

void BpeTokenizer::encode_rest(std::string_view text, std::vector<TokenId>& ids) const {
  encode_text(text, TextPlace::kMiddle, kTrustsAll, ids);
}

void BpeTokenizer::encode_trusted(std::string_view text, bool begins, Trusts trusts,
                                  std::vector<TokenId>& ids) const {
  if (!is_utf8(text)) throw DataError(error_message("tokenizer", "text", "UTF-8", "other bytes"));
  if (!special_normalized_.empty()) require_trusted(text, trusts);
  encode_text(text, begins ? TextPlace::kBeginning : TextPlace::kMiddle, trusts, ids);
}

/// Refuses a text in which normalising makes special tokens, other than those that who may write them wrote:
/// after it, nothing says who wrote what.
void BpeTokenizer::require_trusted(std::string_view text, Trusts trusts) const {
  std::vector<TokenId> written, found;
  special_normalized_.split(
      text,
      [&](const TextOrToken& part) {
        if (part.token) written.push_back(*part.token);
      },
      [&](const AddedToken&, std::size_t begin, std::size_t end) { return trusts(begin, end); });
  in_text_.split(
      text,
      [&](const TextOrToken& part) {
        if (part.token) return;
        const std::string changed = normalized(parts_.normalizers, part.text);
        in_normalized_.split(changed, [&](const TextOrToken& inner) {
          if (inner.token && token_bytes(*inner.token).empty()) found.push_back(*inner.token);
        });
      },
      [&](const AddedToken& token, std::size_t begin, std::size_t end) {
        return !token.special || trusts(begin, end);
      });
  const auto [foreign, rest] = std::ranges::mismatch(found, written);
  if (foreign != found.end())
    throw DataError(error_message("tokenizer", "text", "no special token in a text of a user",
                                  "what reads like '" + printable(special_text(*foreign)) + "'"));
}

void BpeTokenizer::encode_text(std::string_view text, TextPlace place, Trusts trusts,
                               std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = with_valid_utf8(text);
    text = repaired;
  }
  const char* const begin = text.data();
  in_text_.split(
      text,
      [&](const TextOrToken& part) {
        if (part.token == kTokenWithoutId) refuse_token(part.text);
        if (part.token)
          ids.push_back(*part.token);
        else
          encode_between(part.text, part.text.data() == begin,
                         part.text.data() == begin ? place : TextPlace::kBeginning, ids);
      },
      [&](const AddedToken& token, std::size_t first, std::size_t last) {
        return !token.special || trusts(first, last);
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
