#pragma once

#include <memory>
#include <vector>

#include "train/families/translation/data/parallel_text.h"
#include "train/families/translation/data/token_pairs.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// The sentence pairs of a run, for training and for evaluation.
struct TranslationData final : TaskData {
  LanguageTokenizers tokenizers;
  SentenceMarks marks;
  std::shared_ptr<const TokenPairs> train;       ///< null for DataUse::kEvaluation
  std::shared_ptr<const TokenPairs> validation;  ///< null: nothing is held out
  bool synthetic = false;
};

/// Opens and tokenises the pairs of the configuration that `use` needs, and logs how many its filters left
/// out. With kSynthetic, pairs of kSyntheticTokens tokens fill the token batches, and one batch is held out;
/// the cost of a step does not depend on the ids. Throws DataError, also for an evaluation of a run without
/// held-out pairs, and ConfigError for a tokenizer that does not fit the model.
std::shared_ptr<const TranslationData> open_translation_data(const RunConfig& run, DataUse use);

/// The text of the pairs that an evaluation of a run has, in their order, each sentence a line. Throws as
/// open_translation_data() does for an evaluation.
std::vector<TextPair> held_out_text(const RunConfig& run);

/// Tokens of a synthetic sentence, with its end: the mean of news text in 32,000 joint subwords is near it.
inline constexpr std::int64_t kSyntheticTokens = 32;

}  // namespace moh
