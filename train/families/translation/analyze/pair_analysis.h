#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/translation/translation_model.h"
#include "train/families/translation/data/token_pairs.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

struct RunConfig;

/// Sentence pairs with a name.
struct NamedPairs {
  std::string name;
  std::shared_ptr<const TokenPairs> pairs;
};

/// The inputs for the analysis of a translation model's heads on sentence pairs, in token batches of
/// `batch_tokens`. The layers are "encoder self", "decoder self" and "decoder cross", the attention to the
/// source. The table of tokens has those of both languages if they share a vocabulary, else of the target
/// language. options.text is a source sentence: its tokens, and those of its greedy translation. The model
/// must outlive the result. Throws ValueError for options out of range and for a text that is longer than the
/// model's positions, DataError for one that the tokenizer cannot express and for ids outside the vocabulary.
AnalysisInputs analysis_of_pairs(const TranslationModel& model, const LanguageTokenizers& tokenizers,
                                 const SentenceMarks& marks, const std::vector<NamedPairs>& sources,
                                 std::int64_t batch_tokens, const AnalyzeOptions& options);

/// The inputs for the pairs of files that have both sides, or for the run's held-out pairs, by source, if no
/// file is named. Throws DataError, too.
AnalysisInputs analysis_of_pairs(const RunConfig& run, const TranslationModel& model,
                                 std::span<const AnalyzedFiles> files, const AnalyzeOptions& options);

}  // namespace moh
