#pragma once

#include <filesystem>
#include <memory>

#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The file of a Marian tokenizer that stands for all of them, and the models beside it.
inline constexpr const char* kMarianVocabulary = "vocab.json";
inline constexpr const char* kMarianSource = "source.spm";
inline constexpr const char* kMarianTarget = "target.spm";

/// Reads the tokenizer of a Marian model as transformers' MarianTokenizer has it: two SentencePiece models,
/// source.spm and target.spm, cut the sentences of the two languages into pieces, and vocab.json, the file
/// that is named, has their ids. With `separate_vocabs` in the tokenizer_config.json beside, those of the
/// target language are in target_vocab.json. The tokenizer is that of the source language; its target_side()
/// is the other. A piece without an id is the unknown token; a language code, >>deu<<, at the beginning of a
/// text is a token. Text is not changed before SentencePiece normalises it. Throws DataError for files that
/// are missing, damaged, or do not agree.
std::unique_ptr<const Tokenizer> read_marian(const std::filesystem::path& vocabulary);

}  // namespace moh
