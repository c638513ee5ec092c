#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

/// Ids in memory, in two bytes each when the vocabulary has at most 65536, else in four.
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
