#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/pre_tokenizer.h"
#include "train/tokenizers/train_bpe.h"

namespace moh {

/// How a byte-level tokenizer cuts text into words.
enum class WordPattern { kGpt2, kLlama3 };

/// "gpt2" and "llama3"; nothing for another name.
std::optional<WordPattern> word_pattern_named(std::string_view name);

/// The step that cuts text into words.
PreTokenizers pre_tokenizers_of(WordPattern pattern);

/// The tokenizer.json of a byte-level encoding, as the library `tokenizers` writes it. The first tokens, as
/// many as `num_special`, are special.
std::string tokenizer_json_of(const LearnedBpe& bpe, std::size_t num_special, WordPattern pattern);

/// The tokenizer.json of a SentencePiece model or a file of tiktoken's ranks, with which the library
/// `tokenizers` gives the same ids, but that it
/// - finds control pieces and the unknown one in a text, where sentencepiece does not;
/// - applies normalisation rules to characters with combining marks in another way;
/// - of different pairs that make one token merges the first in the list before the leftmost.
/// Throws DataError for what it has no form for: unused pieces, characters that are in pieces and none
/// themselves, special tokens that are called as a rank is in the alphabet of bytes.
std::string tokenizer_json_of(const std::filesystem::path& file);

}  // namespace moh
