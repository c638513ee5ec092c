#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "train/tasks/language/data/tokenizer.h"

namespace moh {

/// A sequence of token ids that can be read anywhere. Immutable and thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;
  /// Writes the ids [begin, begin + ids.size()). The range must lie within [0, size()). A source on disk
  /// throws DataError naming the file when it has been damaged since it was opened.
  virtual void copy(std::int64_t begin, std::span<TokenId> ids) const = 0;
};

using TokenSourcePtr = std::shared_ptr<const TokenSource>;

/// Gathers ids in memory: in one byte each when the vocabulary has at most 256, in two up to 65536, else in
/// four.
class TokenMemory {
 public:
  explicit TokenMemory(std::int64_t vocab_size);

  /// Makes room for so many ids in all, where it is known beforehand.
  void reserve(std::uint64_t ids);
  void append(std::span<const TokenId> ids);
  /// What was appended.
  TokenSourcePtr finish();

 private:
  using Stored = std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<TokenId>>;

  std::int64_t vocab_size_;
  Stored ids_;
};

/// Ids in memory, gathered as by TokenMemory.
TokenSourcePtr tokens_in_memory(std::span<const TokenId> ids, std::int64_t vocab_size);

/// Ids [begin, end) of `source`.
TokenSourcePtr slice_tokens(TokenSourcePtr source, std::int64_t begin, std::int64_t end);

/// The sources one after the other; `separator`, when given, stands between two of them (and neither before
/// the first nor after the last, so that a single source is itself).
TokenSourcePtr concatenate_tokens(std::vector<TokenSourcePtr> sources, std::optional<TokenId> separator);

/// Ids drawn uniformly from a vocabulary, each a function of the seed and its index, computed as they are
/// read.
TokenSourcePtr random_tokens(std::int64_t size, std::int64_t vocab_size, std::uint64_t seed);

}  // namespace moh
