#pragma once

#include <filesystem>
#include <memory>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// Reads a SentencePiece model (`tokenizer.model` of LLaMA 2, Mistral, T5 ...): byte-pair encodings and
/// unigram models, with their normalisation rules, user-defined pieces and byte fallback. Ids are those that
/// the library `sentencepiece` gives for encode(text); the reader is moh's own, as files are untrusted. A
/// text begins with <s>, where the model has it, unless the tokenizer_config.json beside says
/// `add_bos_token: false`; the token that ends a document is its `eos_token`, or </s>. Throws DataError for a
/// file that is damaged, and for what is not supported, naming it.
std::unique_ptr<const Tokenizer> read_sentencepiece(const std::filesystem::path& path);

}  // namespace moh
