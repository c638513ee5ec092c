#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/tokenizers/token_id.h"

namespace moh {

using SpecialTokens = std::vector<std::pair<std::string, TokenId>>;

/// The parts of an encoding that a file of ranks lacks.
struct TiktokenEncoding {
  std::string pattern;  ///< a regular expression; its matches are the words
  SpecialTokens special;
};

/// The published encoding with so many ranks.
std::optional<TiktokenEncoding> published_encoding(std::size_t num_ranks);

/// The pattern of a name: gpt2, cl100k, o200k, llama3, qwen.
std::optional<std::string> pattern_named(std::string_view name);

/// An expression in which \p{L} and the like mean Unicode 16, as in tiktoken, for a library of Unicode 14.
std::string with_unicode_16(std::string_view expression);

}  // namespace moh
