#pragma once

#include <filesystem>
#include <memory>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// Opens the tokenizer that a setting names: `byte`, a file of a tokenizer (tokenizer.json, a SentencePiece
/// model, a Marian vocab.json; told apart by content), or a folder with one. Messages begin with `where`, the
/// setting. Throws ConfigError for a path without a tokenizer, DataError for a file that is damaged or not
/// supported.
std::unique_ptr<const Tokenizer> open_tokenizer(std::string_view where, const std::filesystem::path& setting);

/// The tokenizer's file in a folder: vocab.json beside a SentencePiece model of Marian; else tokenizer.json,
/// tokenizer.model, tokenizer.tiktoken, the first that is there, or that which a tokenizer_config.json beside
/// names (kOriginalKey). Empty if there is none. Throws DataError for a damaged tokenizer_config.json.
std::filesystem::path tokenizer_file_in(const std::filesystem::path& folder);

}  // namespace moh
