#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// A file that a tokenizer was read from, or that says how it is used, as it was when it was read.
struct TokenizerFile {
  std::string name;  ///< as in a checkpoint: "tokenizer.json"
  std::string contents;

  bool operator==(const TokenizerFile&) const = default;
};

/// Turns text into token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The tokenizer's kind in messages and token files: "byte", or the name of its file. At most 31 bytes.
  virtual std::string_view name() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// A hash of everything that determines the ids of a text. It is stored in token files and checkpoints, so
  /// that a model is never used with ids of another tokenizer.
  virtual std::uint64_t content_hash() const = 0;
  /// The id that separates documents, if the vocabulary has one. It has no text.
  virtual std::optional<TokenId> end_of_document() const = 0;
  /// The ids that a text begins with for the model, such as that of <s>; often none.
  virtual const std::vector<TokenId>& sequence_start() const;
  /// The token before a text that nothing precedes, as where its first token is scored: the first of
  /// sequence_start(), else the `bos_token` of its configuration; nothing if there is neither.
  virtual std::optional<TokenId> beginning() const;
  /// Whether the space at the beginning of a decoded text is not part of it.
  virtual bool drops_leading_space() const { return false; }

  /// The tokenizer of the language that is translated to, where it is another than this one, which is then
  /// that of the source language (Marian's models); null: both languages have this one.
  virtual std::unique_ptr<const Tokenizer> target_side() const { return nullptr; }

  /// The files with which it can be made again; none for one that needs no file.
  virtual const std::vector<TokenizerFile>& files() const;

  /// Whether a text may be split between any two bytes and encoded piece by piece.
  virtual bool encodes_in_pieces() const { return false; }
  /// Appends the ids of `text` to `ids`. What is not UTF-8 is read as U+FFFD by tokenizers that have
  /// characters. Throws DataError for text that the vocabulary cannot express.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// Encodes a text that continues another: nothing is put before its first word.
  virtual void encode_rest(std::string_view text, std::vector<TokenId>& ids) const { encode(text, ids); }
  /// Encodes a text of several authors, which must be UTF-8, as encode() does, but for special tokens (those
  /// without text, such as "</s>"): they are found only where `trusts` says that all their bytes
  /// [begin, end) come from who may write them, and what reads like one elsewhere is text. Tokenizers that
  /// find no special tokens in a text (SentencePiece) find them here, and encode what lies between them piece
  /// by piece. Throws DataError as encode() does, and for text that reads like a special token only after the
  /// tokenizer has normalised it.
  /// Without `begins` the text continues another, as of encode_rest().
  using Trusts = FunctionRef<bool(std::size_t begin, std::size_t end)>;
  virtual void encode_trusted(std::string_view text, bool begins, Trusts trusts,
                              std::vector<TokenId>& ids) const;
  /// The text of an id in bytes, which need not be whole characters (see Utf8Stream). Throws ValueError for
  /// an id outside the vocabulary.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  /// The spelling of other programs for a token without text: "</s>". Empty for tokens with text, and where
  /// there is no such spelling.
  virtual std::string_view special_text(TokenId /*id*/) const { return {}; }
  /// A whole text that was decoded token by token, with the changes that the tokenizer's configuration asks
  /// for (clean_up_tokenization_spaces).
  virtual std::string cleaned_up(std::string text) const { return text; }
};

/// One token per byte: a vocabulary of 256 for any UTF-8 text, without a vocabulary file. Byte 0 occurs in no
/// text, so id 0 is the end-of-document token.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "byte";
  static constexpr TokenId kEndOfDocument = 0;

  std::string_view name() const override { return kName; }
  std::int64_t vocab_size() const override { return 256; }
  std::uint64_t content_hash() const override;
  std::optional<TokenId> end_of_document() const override { return kEndOfDocument; }
  bool encodes_in_pieces() const override { return true; }
  /// Throws DataError for a text with a NUL byte.
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string_view token_bytes(TokenId id) const override;
  std::string_view special_text(TokenId id) const override;
};

/// A content hash as stored in files: 16 hexadecimal digits.
std::string hash_text(std::uint64_t content_hash);

/// "tokenizer.json, 32000 tokens, hash 0123456789abcdef".
std::string describe(const Tokenizer& tokenizer);

/// The text with U+FFFD in the place of what is not UTF-8: one for each invalid byte, or for the bytes of a
/// character that breaks off (Unicode's recommended practice, as Python decodes with errors="replace").
std::string with_valid_utf8(std::string_view text);

/// Treatment of control characters other than newline and tab, such as a sampled ESC.
enum class ControlCharacters {
  kReplace,  ///< U+FFFD, for terminals, where they could start a control sequence
  kKeep
};

/// Turns bytes that a model generates piece by piece into UTF-8: a character is returned once its last byte
/// has arrived; invalid bytes become U+FFFD.
class Utf8Stream {
 public:
  explicit Utf8Stream(ControlCharacters control = ControlCharacters::kReplace) : control_(control) {}

  /// Adds `bytes` and returns the characters that are now complete.
  std::string push(std::string_view bytes);
  /// Ends the stream; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  ControlCharacters control_;
  std::string pending_;  // a proper prefix of one character, at most three bytes
};

}  // namespace moh
