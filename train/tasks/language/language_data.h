#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/config/run_config.h"
#include "train/tasks/family.h"
#include "train/tasks/language/data/token_source.h"
#include "train/tasks/language/data/tokenizer.h"
#include "train/tasks/language/language_run.h"

namespace moh {

/// The tokens of a run: what it trains on and what it is judged by.
struct LanguageData final : TaskData {
  std::unique_ptr<const Tokenizer> tokenizer;
  TokenSourcePtr train;       ///< null for DataUse::kEvaluation
  TokenSourcePtr validation;  ///< may be empty
  /// Key and contents (Corpus::describe_contents) of what training opened.
  std::vector<std::pair<std::string, std::string>> contents;
};

/// Opens the files that the configuration names, as far as `use` needs them; the validation set is a list of
/// its own or split off. With kSynthetic, ids drawn uniformly from the model's whole vocabulary, each a
/// function of the seed and its index, of which one batch is held out: whatever the tokens are, a step costs
/// the same. Throws DataError, also for an evaluation of a run that held nothing out, and ConfigError when
/// the tokenizer has more tokens than the model's vocabulary; for kTraining also when sample.prompt is not
/// one that the model can continue, which must not turn out at the end of the training.
std::shared_ptr<const LanguageData> open_language_data(const RunConfig& run, DataUse use);

/// The tokenizer of a run's data. Throws ConfigError for a model whose tokens moh cannot make of text, and
/// where the tokenizer has more tokens than the model's vocabulary.
std::unique_ptr<const Tokenizer> tokenizer_of(const LanguageRun& run);

/// The tokens of files and folders, joined; a warning tells what was skipped. Throws DataError.
TokenSourcePtr open_text(std::span<const std::string> inputs, const Tokenizer& tokenizer);

/// The tokens that a run is judged by. Throws as open_language_data.
TokenSourcePtr open_held_out_text(const RunConfig& run, const Tokenizer& tokenizer);

}  // namespace moh
