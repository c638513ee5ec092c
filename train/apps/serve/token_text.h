#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The view that clients have of a tokenizer: text to ids and back with the texts of special tokens, such as
/// "</s>", and names of single tokens. Thread-safe.
class TokenText {
 public:
  /// The tokenizer must outlive the object.
  explicit TokenText(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// The text of the token that ends a document, and of the one before a text (Tokenizer::beginning); may be
  /// empty.
  std::string end_text() const;
  std::string start_text() const;

  /// The ids of a text, with those that a text begins with before them if `with_start`. A text that is
  /// end_text() or start_text() is one token. Throws RequestError, status 400, naming `param`, for text that
  /// the vocabulary cannot express.
  std::vector<TokenId> encode(const std::string& param, std::string_view text, bool with_start) const;
  /// A number of tokens that a text of so many bytes has at least: a quarter of what the longest token makes
  /// of it, as normalizers may shorten a text.
  std::int64_t tokens_at_least(std::size_t bytes) const;
  /// Throws RequestError, status 400, naming `param`, for an id outside the vocabulary.
  void require_known(const std::string& param, const std::vector<TokenId>& ids) const;
  /// The bytes of a token, for special tokens those of their text.
  std::string_view bytes(TokenId id) const;
  /// The text of ids as UTF-8; what is not becomes U+FFFD.
  std::string decode(const std::vector<TokenId>& ids) const;
  /// A token's text where it is whole characters, else "bytes:\xe4\xbd"; "token_id:7" where it has none.
  std::string name(TokenId id) const;
  /// A name for an id only: several ids may have one text.
  static std::string number_name(TokenId id) { return "token_id:" + std::to_string(id); }

 private:
  const Tokenizer& tokenizer_;
  std::size_t longest_ = 1;  // bytes of a token
};

/// The JSON of GET /tokenizer_info: kind and size of the vocabulary, texts of the tokens that end and begin a
/// text and that pad (null where there is none), and the chat template beside the tokenizer, if there is one.
std::string tokenizer_info(const TokenText& text);

}  // namespace moh
