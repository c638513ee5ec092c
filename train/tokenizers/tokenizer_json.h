#pragma once

#include <filesystem>
#include <memory>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// Reads the file `tokenizer.json` of Hugging Face's library `tokenizers`: byte-pair encodings as of GPT-2,
/// LLaMA 3, Qwen (byte-level) and LLaMA 2, Mistral (characters with byte fallback), with the normalisers,
/// pre-tokenizers and decoders that these use. Ids are those that the library gives for
/// encode(text, add_special_tokens=False). Truncation and padding are settings of a call there, and are
/// ignored. The token that ends a document is `eos_token` of the tokenizer_config.json beside, or, without
/// one, that of a known name. Throws DataError for a file that is damaged, and for what is not supported,
/// naming it.
std::unique_ptr<const Tokenizer> read_tokenizer_json(const std::filesystem::path& path);

}  // namespace moh
