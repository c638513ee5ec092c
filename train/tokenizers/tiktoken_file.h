#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/bpe.h"
#include "train/tokenizers/tiktoken_encodings.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

struct TiktokenRank {
  std::string bytes;
  TokenId id = 0;
};

/// A file of ranks of the library `tiktoken`, and what it does not say (read_tiktoken).
struct TiktokenFile {
  std::vector<TiktokenRank> ranks;  ///< in the order of the file
  TiktokenEncoding encoding;        ///< special tokens in the order of their names
  std::vector<TokenizerFile> files;
};

/// Whether bytes may be a file of tiktoken's ranks: a token in base64, a space, and its rank.
bool looks_like_tiktoken(std::string_view first_bytes);

/// Reads the file, and the `tiktoken.json` beside it. Throws DataError as read_tiktoken().
TiktokenFile read_tiktoken_file(const std::filesystem::path& path);

/// All neighbours whose bytes together are a token are merged, the token of the lowest rank first. Throws
/// DataError, naming `where`, for tokens that do not differ, and unless all single bytes are tokens.
BpeTables tiktoken_tables(const std::vector<TiktokenRank>& ranks, const std::string& where);

}  // namespace moh
