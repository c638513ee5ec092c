#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "models/llm/llama.h"
#include "train/tasks/language/data/tokenizer.h"
#include "train/tasks/language/generate/generate_options.h"

namespace moh {

/// What generate_text did.
struct GenerateReport {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
  double seconds = 0;  ///< of drawing the new tokens, the prompt's forward pass not included
};

/// Continues `prompt` and hands the text to `sink` as it comes, in whole characters (without the prompt).
/// Keys and values of earlier tokens come from a cache of which only the selected heads are read. Stops early
/// at the end-of-document token. When the model's positions are used up, the first half of the text is
/// forgotten and the rest is read again. Throws ValueError for an empty prompt, one that is longer than the
/// model's positions, and a negative number of tokens.
GenerateReport generate_text(const Llama& model, const Tokenizer& tokenizer, std::string_view prompt,
                             const GenerateOptions& options,
                             const std::function<void(std::string_view)>& sink);

}  // namespace moh
