#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/tokenizers/token_id.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

using SpecialTokens = std::vector<std::pair<std::string, TokenId>>;

/// The parts of an encoding that a file of ranks lacks.
struct TiktokenEncoding {
  std::string pattern;  ///< a regular expression; its matches are the words
  SpecialTokens special;
};

/// The largest id of a rank or a special token. Ids are places in arrays: a file must not make them large.
constexpr TokenId kMaxTiktokenId = 1 << 24;

/// The encoding of a file with so many ranks: that of the tiktoken.json beside it, or else the published one
/// with so many. Throws DataError, which says how to name it, for another number, and for a tiktoken.json
/// that is damaged.
TiktokenEncoding tiktoken_encoding(const std::filesystem::path& path, std::size_t num_ranks);

/// The tiktoken.json beside a file of ranks, as a file of the tokenizer; nothing without one.
std::optional<TokenizerFile> tiktoken_json_beside(const std::filesystem::path& path);

/// An expression in which \p{L} and the like mean Unicode 16, as in tiktoken, for a library of Unicode 14.
std::string with_unicode_16(std::string_view expression);

}  // namespace moh
