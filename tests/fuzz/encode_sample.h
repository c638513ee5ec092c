#pragma once

#include <string_view>
#include <vector>

#include "train/tokenizers/tokenizer.h"

namespace moh::test {

/// The use of a tokenizer in its targets: encodes a text with digits, apostrophes, rows of spaces, Chinese,
/// full width, a ligature, an invalid byte and special tokens, as a whole and continuing another, and decodes
/// its ids, which must lie in the vocabulary.
inline void encode_sample(const Tokenizer& tokenizer) {
  constexpr std::string_view kText =
      "Two heads, 2 of 12:\n they're \xe5\xa4\x9a\xff <|endoftext|>  <sep>aaaabab \uff21\uff22 \ufb01 pad ";
  std::vector<TokenId> ids;
  tokenizer.encode(kText, ids);
  tokenizer.encode_rest(kText, ids);
  for (const TokenId id : ids) {
    if (id < 0 || id >= tokenizer.vocab_size()) __builtin_trap();
    tokenizer.token_bytes(id);
  }
}

}  // namespace moh::test
