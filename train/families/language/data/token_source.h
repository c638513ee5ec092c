#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// A token that the model reads and does not learn to write, such as one of a prompt, is marked as no target:
/// its complement stands for it, ~id, which is negative. Where ids are stored, so that one read brings both.
constexpr TokenId marked(TokenId id) {
  return ~id;
}
constexpr bool is_marked(TokenId id) {
  return id < 0;
}
/// The id of a token, marked or not.
constexpr TokenId unmarked(TokenId id) {
  return id < 0 ? ~id : id;
}

/// A sequence of token ids with random access. Immutable and thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;
  /// Copies the ids [begin, begin + ids.size()) to `ids`, with marks. The range must lie within [0, size()).
  /// A source on disk throws DataError naming the file if it has been damaged since it was opened.
  virtual void copy_marked(std::int64_t begin, std::span<TokenId> ids) const = 0;
  /// Copies ids without marks.
  void copy(std::int64_t begin, std::span<TokenId> ids) const {
    copy_marked(begin, ids);
    for (TokenId& id : ids) id = unmarked(id);
  }
};

using TokenSourcePtr = std::shared_ptr<const TokenSource>;

/// Collects ids in memory: of one byte each if the vocabulary has at most 256 tokens, of two up to 65536,
/// else of four; once there are marked ones, of two bytes up to 32768 tokens, else of four.
class TokenMemory {
 public:
  explicit TokenMemory(std::int64_t vocab_size);

  /// Reserves memory for `ids` ids in total, if their number is known beforehand.
  void reserve(std::uint64_t ids);
  /// Ids of which some may be marked.
  void append(std::span<const TokenId> ids);
  std::size_t size() const;
  /// Returns the appended ids as a token source.
  TokenSourcePtr finish();

 private:
  using Stored = std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>,
                              std::vector<std::int16_t>, std::vector<TokenId>>;

  /// Makes room for marks.
  void widen();

  std::int64_t vocab_size_;
  Stored ids_;
};

/// Ids in memory, stored as by TokenMemory.
TokenSourcePtr tokens_in_memory(std::span<const TokenId> ids, std::int64_t vocab_size);

/// Ids [begin, end) of `source`.
TokenSourcePtr slice_tokens(TokenSourcePtr source, std::int64_t begin, std::int64_t end);

/// The concatenation of the sources, with `separator`, if given, between them (but not before the first or
/// after the last).
TokenSourcePtr concatenate_tokens(std::vector<TokenSourcePtr> sources, std::optional<TokenId> separator);

/// Ids drawn uniformly from a vocabulary, each a function of the seed and its index, computed as they are
/// read.
TokenSourcePtr random_tokens(std::int64_t size, std::int64_t vocab_size, std::uint64_t seed);

}  // namespace moh
