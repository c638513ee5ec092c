#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/bpe.h"
#include "train/tokenizers/normalizer.h"
#include "train/tokenizers/piece_trie.h"
#include "train/tokenizers/sentencepiece_model.h"
#include "train/tokenizers/sentencepiece_normalizer.h"
#include "train/tokenizers/sentencepiece_segmentation.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// Cuts texts into the pieces of a SentencePiece model, as its library does. Immutable and thread-safe.
class SentencePieces {
 public:
  /// Throws DataError, naming `where`, for what is not supported.
  SentencePieces(SentencePieceModel model, const std::string& where);
  SentencePieces(const SentencePieces&) = delete;  // parts of it refer to others
  SentencePieces& operator=(const SentencePieces&) = delete;

  const SentencePieceModel& model() const { return model_; }
  /// The number of a piece in the model; nothing for other texts.
  std::optional<TokenId> find(std::string_view piece) const;
  /// The bytes that a piece stands for in a text; none for control pieces.
  std::string bytes_of(TokenId id) const;

  /// Appends the pieces of a text in valid UTF-8, by their numbers in the model. `unknown`, if given, gets
  /// for each unknown piece among them the normalised text that it stands for: a row of characters, of which
  /// the model has none.
  void encode(std::string_view text, TextPlace place, std::vector<TokenId>& ids,
              std::vector<std::string>* unknown = nullptr) const;

 private:
  /// The pieces that are appended.
  struct Output {
    std::vector<TokenId>& ids;
    std::vector<std::string>* unknown;
    bool after_unknown = false;
  };

  void encode_unigram(std::string_view text, Output& to) const;
  void encode_bpe(std::string_view text, Output& to) const;
  void add(TokenId id, std::string_view text, Output& to) const;
  std::size_t bytes_of_symbol(TokenId id, std::string_view text) const;

  SentencePieceModel model_;
  PieceTrie user_defined_;
  AddedTokens user_defined_tokens_;
  SentencePieceNormalizer normalizer_;
  std::vector<TokenId> byte_tokens_;
  bool has_all_characters_ = true;  // of its pieces, in a byte-pair encoding
  std::optional<Unigram> unigram_;
  std::optional<Bpe> bpe_;
};

/// The text of a token with spaces in the place of U+2581, which stands for them in pieces.
std::string with_spaces(std::string text);

}  // namespace moh
