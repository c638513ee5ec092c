#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// Number of a token in its vocabulary, 0 ... vocab_size - 1.
using TokenId = std::int32_t;

/// Turns text into token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// What configs and token files call it, for example "byte". At most 31 bytes.
  virtual std::string_view name() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// A hash of everything that decides which ids a text becomes. Token files and checkpoints carry it, so
  /// that a model never meets the ids of another tokenizer.
  virtual std::uint64_t content_hash() const = 0;
  /// The id that stands between documents, when the vocabulary has one. It stands for no text.
  virtual std::optional<TokenId> end_of_document() const = 0;

  /// Whether a text may be encoded piece by piece, cut between any two bytes.
  virtual bool encodes_in_pieces() const { return false; }
  /// Appends the ids of `text` to `ids`. Throws DataError for text that the vocabulary cannot express.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// The bytes of text that one id stands for, which need not be whole characters (see Utf8Stream). Throws
  /// ValueError for an id outside the vocabulary.
  virtual std::string_view token_bytes(TokenId id) const = 0;
};

/// One token per byte: vocabulary 256, no file needed, any UTF-8 text. Byte 0 occurs in no text, so its id
/// marks the end of a document and the vocabulary stays a power of two.
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
};

/// A content hash as files have it: 16 hexadecimal digits.
std::string hash_text(std::uint64_t content_hash);

/// The tokenizer of that name. Throws ConfigError listing the known names.
std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name);

/// Turns bytes that arrive piece by piece, as a model emits them, into text that is safe to print on a
/// terminal: a character is given out when its last byte has arrived, and bytes that form no character, as
/// well as control characters other than newline and tab (a sampled ESC could reprogram the terminal), become
/// U+FFFD.
class Utf8Stream {
 public:
  /// The text that is complete once `bytes` have been added.
  std::string push(std::string_view bytes);
  /// The end of the stream: what was held back is an unfinished character.
  std::string finish();

 private:
  std::string pending_;  // a proper prefix of one character, at most three bytes
};

}  // namespace moh
