#pragma once

#include <cstdint>
#include <filesystem>

#include "train/families/language/hf/hf_config.h"

namespace moh {

/// The tokens of a model of bytes: byte 0 ends a text.
HfTokenIds byte_token_ids();

/// Writes tokenizer.json and tokenizer_config.json, with which Python's `tokenizers` and AutoTokenizer do
/// what ByteTokenizer does: an id is a byte of UTF-8, and the token of id 0, a NUL in text, is the
/// end-of-text one. `max_length` is in tokens. Throws StorageError.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t max_length);

/// Completes the files of a tokenizer that were copied into `folder`, so that AutoTokenizer opens it: beside
/// a SentencePiece model or tiktoken's ranks a tokenizer.json that does the same, and a tokenizer_config.json
/// where there is none, of whose tokens `tokens` begin and end a text. moh goes on reading the original,
/// which the latter names. Warns where no tokenizer.json can do the same. Throws StorageError,
/// CheckpointError for a tokenizer.json that is damaged.
void complete_tokenizer(const std::filesystem::path& folder, const HfTokenIds& tokens,
                        std::int64_t max_length);

/// Whether a tokenizer.json is that of write_byte_tokenizer.
bool is_byte_tokenizer(const std::filesystem::path& tokenizer_json);

}  // namespace moh
