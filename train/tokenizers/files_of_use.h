#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The files beside a tokenizer's that say how its tokens are used (tokenizer_config.json, a chat template,
/// ...), which a model that is trained with it keeps. Throws DataError for one that is too large.
std::vector<TokenizerFile> files_of_use(const std::filesystem::path& tokenizer_file);

/// In a tokenizer_config.json: the file that the tokenizer.json beside was made from, which moh reads
/// instead.
inline constexpr const char* kOriginalKey = "moh_tokenizer_file";

/// The contents of the tokenizer_config.json beside a tokenizer's file; for bos_token and eos_token also of
/// the special_tokens_map.json, where the former has neither them nor an added_tokens_decoder.
struct TokenizerUse {
  std::string file;                     ///< its path, for messages
  std::optional<std::string> begin;     ///< bos_token
  std::optional<std::string> end;       ///< eos_token
  std::optional<bool> begins_with_bos;  ///< add_bos_token
  std::optional<bool> cleans_up;        ///< clean_up_tokenization_spaces
  std::optional<bool> separate_vocabs;  ///< of Marian's models
  std::optional<std::string> original;  ///< kOriginalKey
};
/// Nothing is set where there is no such file. Throws DataError for one that is damaged.
TokenizerUse read_tokenizer_use(const std::filesystem::path& tokenizer_file);

}  // namespace moh
