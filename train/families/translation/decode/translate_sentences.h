#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/translation/translation_model.h"
#include "train/families/translation/decode/beam_search.h"
#include "train/families/translation/translation_run.h"

namespace moh {

struct TranslateOptions {
  BeamOptions beam;
  /// The most tokens of a translation, its end included. 0: kLengthMargin more than the source has with its
  /// end. Never more than the model has positions.
  std::int64_t max_length = 0;
};
/// Tokens by which a translation may be longer than its source (Vaswani et al. 2017, section 6.1).
inline constexpr std::int64_t kLengthMargin = 50;

/// Translates a batch of sentences, given in tokens without their ends: for each the hypotheses that the
/// search finds, the best first. `vocab_size`: the ids that have text. Each sentence is a search of its own;
/// its batch changes rounding alone. Memory: keys and values of beams x sentences hypotheses of the greatest
/// length, and logits of one token of each.
///
/// Throws ValueError for no sentences, one that is longer than the model's positions, and options of no
/// search (BeamSearch); NumericError for logits that are not finite.
std::vector<std::vector<Hypothesis>> translate_sentences(const TranslationModel& model,
                                                         const SentenceMarks& marks, std::int64_t vocab_size,
                                                         std::span<const std::vector<TokenId>> sentences,
                                                         const TranslateOptions& options);

}  // namespace moh
