#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

  /// Appends the ids of `text` to `ids`. Throws DataError for text that the vocabulary cannot express.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  /// The bytes of text that one id stands for, which need not be whole characters (see Utf8Stream). Throws
  /// ValueError for an id outside the vocabulary.
  virtual std::string_view token_bytes(TokenId id) const = 0;
};

/// The bytes of text that the ids stand for.
std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids);

/// A content hash as files have it: 16 hexadecimal digits.
std::string hash_text(std::uint64_t content_hash);

/// The tokenizer of that name. Throws ConfigError listing the known names.
std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name);

}  // namespace moh
