#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// Counts the occurrences of each id of [0, counts.size()). Throws DataError for an id outside.
void count_ids(std::span<const std::int64_t> ids, std::span<std::int64_t> counts);

/// A token as a report shows it: its text, or where it has none its name, "</s>".
std::string shown_text(const Tokenizer& tokenizer, TokenId id);

/// The tokens whose heads an analysis shows, with their counts: those of options.tokens, or the
/// options.top_tokens most frequent ones, of equal counts the lower id first. Throws ValueError for a
/// negative number and for a text that is not one token, DataError for a text that the tokenizer cannot
/// express.
std::vector<ShownToken> token_table(const Tokenizer& tokenizer, const AnalyzeOptions& options,
                                    std::span<const std::int64_t> counts);

}  // namespace moh
