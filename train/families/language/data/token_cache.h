#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/families/language/data/record_text.h"
#include "train/families/language/data/token_file.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

inline constexpr const char* kDefaultTokenCache = "auto";

/// Where and how text becomes tokens.
struct TextOptions {
  /// Folder of token files that are made of large texts; kDefaultTokenCache: default_token_cache().
  std::filesystem::path cache = kDefaultTokenCache;
  RecordOptions records;  ///< of JSON Lines
};

/// $XDG_CACHE_HOME/moh/tokens, else $HOME/.cache/moh/tokens; empty if neither is set.
std::filesystem::path default_token_cache();

/// The token file of a text in the cache: made there, with progress on stderr, unless there is one of these
/// contents and this tokenizer. `checksum` is that of the file's contents. Nothing if the file was skipped
/// (encode_documents). Throws DataError, and StorageError if the cache cannot be written, which says how to
/// name another.
std::shared_ptr<const TokenFile> cached_tokens(const InputPath& input, const std::string& checksum,
                                               const Tokenizer& tokenizer, const TextOptions& options,
                                               SkippedFiles& skipped);

}  // namespace moh
