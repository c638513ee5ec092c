#pragma once

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

}  // namespace moh
