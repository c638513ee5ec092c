#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/families/translation/decode/translate_sentences.h"
#include "train/families/translation/translation_family.h"

namespace moh {

struct TranslateTextOptions {
  TranslateOptions search;
  std::int64_t n_best = 1;           ///< translations of each line, at most search.beam.beams
  std::int64_t batch_tokens = 1024;  ///< source tokens of a batch, unless it is one sentence
};

/// A translation as a line of text.
struct TranslatedText {
  std::string text;
  std::vector<TokenId> ids;  ///< its tokens, without the end
  double log_probability = 0, score = 0;
};

/// Translates lines. `sink` gets the translations of each, the best first, in the order of the lines; a line
/// without text has none. They come after each 1024 lines, among which sentences of similar length make a
/// batch, which changes rounding alone. `progress` is called after each batch with the number of translated
/// lines. Spaces at the ends of a line are removed and runs of spaces become one (one_line()), as in
/// training.
///
/// Throws ConfigError for options out of range, DataError naming `where` and the line for text that the
/// tokenizer cannot express and for a line that is longer than the model's positions.
void translate_text(const TrainedTranslation& model, std::span<const std::string> lines,
                    const std::string& where, const TranslateTextOptions& options,
                    const std::function<void(std::span<const TranslatedText>)>& sink,
                    FunctionRef<void(std::int64_t done)> progress);

}  // namespace moh
