#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/bpe.h"
#include "train/tokenizers/normalizer.h"
#include "train/tokenizers/pre_tokenizer.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The parts of a BpeTokenizer.
struct BpeTokenizerParts {
  std::string name;  ///< of Tokenizer
  std::uint64_t content_hash = 0;
  std::vector<AddedToken> added;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  BpeTables tables;
  /// By id: the bytes that a token is decoded to; special tokens, and ids without a token, have none.
  std::vector<std::string> bytes;
  bool drops_leading_space = false;
  std::optional<TokenId> end_of_document;
  std::vector<TokenId> sequence_start;
  std::optional<TokenId> beginning;  ///< where sequence_start is empty
  std::vector<TokenizerFile> files;
};

/// A tokenizer as that of the library `tokenizers` with a byte-pair encoding: finds added tokens, normalises
/// what lies between them, cuts it into words, and encodes each.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeTokenizerParts parts);

  std::string_view name() const override { return parts_.name; }
  std::int64_t vocab_size() const override { return std::ssize(parts_.bytes); }
  std::uint64_t content_hash() const override { return parts_.content_hash; }
  std::optional<TokenId> end_of_document() const override { return parts_.end_of_document; }
  const std::vector<TokenId>& sequence_start() const override { return parts_.sequence_start; }
  std::optional<TokenId> beginning() const override {
    return parts_.sequence_start.empty() ? parts_.beginning : Tokenizer::beginning();
  }
  bool drops_leading_space() const override { return parts_.drops_leading_space; }
  const std::vector<TokenizerFile>& files() const override { return parts_.files; }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  void encode_rest(std::string_view text, std::vector<TokenId>& ids) const override;
  void encode_trusted(std::string_view text, bool begins, Trusts trusts,
                      std::vector<TokenId>& ids) const override;
  std::string_view token_bytes(TokenId id) const override;
  std::string_view special_text(TokenId id) const override;

 private:
  void encode_text(std::string_view text, TextPlace place, Trusts trusts, std::vector<TokenId>& ids) const;
  void require_trusted(std::string_view text, Trusts trusts) const;
  void encode_between(std::string_view text, bool first, TextPlace place, std::vector<TokenId>& ids) const;

  BpeTokenizerParts parts_;
  AddedTokens in_text_, in_normalized_;
  AddedTokens special_normalized_;  // those of in_normalized_ that are special, as they are written
  Bpe bpe_;
};

}  // namespace moh
