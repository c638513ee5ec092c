#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// How documents are told apart in a stream of tokens: one begins after the token that ends documents, and
/// with the token that begins texts.
struct DocumentMarks {
  std::optional<TokenId> end, start;

  explicit DocumentMarks(const Tokenizer& tokenizer);

  /// Whether the tokenizer has one of these tokens.
  bool exist() const { return end || start; }
  /// Whether a document begins with `id`, which follows `before`.
  bool begins(TokenId before, TokenId id) const { return before == end || id == start; }

  /// For the T tokens of a sequence, writes the position at which each one's document begins.
  void write_starts(std::span<const TokenId> tokens, std::int32_t* starts) const;
};

}  // namespace moh
