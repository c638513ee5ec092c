#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/bpe.h"
#include "train/tokenizers/tiktoken_encodings.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// Reads a file of ranks of the library `tiktoken` (`.tiktoken`; the `tokenizer.model` of LLaMA 3 is one,
/// too). Its pattern and special tokens are in no such file. Those of GPT-2 (r50k, p50k), cl100k, o200k,
/// LLaMA 3 and Qwen are known by the number of ranks; others are those of a file `tiktoken.json` beside:
///
///     {"pattern": "cl100k", "special_tokens": {"<|endoftext|>": 100257}}
///
/// where the pattern is a name (gpt2, cl100k, o200k, llama3, qwen) or a regular expression. Ids are those of
/// encode(text, allowed_special="all"). A text begins with <|begin_of_text|> where there is one, unless the
/// tokenizer_config.json beside says `add_bos_token: false`; the token that ends a document is its
/// `eos_token`, or <|end_of_text|> or <|endoftext|>. Throws DataError for a file that is damaged, and for one
/// whose pattern is not known, which says how to name it.
std::unique_ptr<const Tokenizer> read_tiktoken(const std::filesystem::path& path);

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
