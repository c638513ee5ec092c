#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/families/language/data/token_batch.h"
#include "train/families/language/data/token_source.h"
#include "train/families/language/language_run.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// The tokens of a run, for training and for evaluation.
struct LanguageData final : TaskData {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<TextSource> train;       ///< empty for DataUse::kEvaluation
  std::vector<TextSource> validation;  ///< those with held-out tokens: at least two; may be empty
};

/// Opens the files of the configuration that `use` needs; validation text has its own files or is split off
/// the training files; either may be sources with names. With kSynthetic, ids are drawn uniformly from the
/// model's vocabulary, each a function of the seed and its index, and one batch is held out; the cost of a
/// step does not depend on the ids. Throws DataError, also for an evaluation of a run without held-out data,
/// and ConfigError if the tokenizer has more tokens than the model's vocabulary. For kTraining also checks
/// sample.prompt, so that an invalid one is reported before the training and not at its end.
std::shared_ptr<const LanguageData> open_language_data(const RunConfig& run, DataUse use);

/// The tokenizer of a run's data. Throws ConfigError for a model whose tokenizer moh does not support, and if
/// the tokenizer has more tokens than the model's vocabulary.
std::unique_ptr<const Tokenizer> tokenizer_of(const LanguageRun& run);
/// The tokenizer with all of its tokens, whatever rows the model has.
std::unique_ptr<const Tokenizer> whole_tokenizer_of(const LanguageRun& run);

/// The concatenated tokens of files and folders; logs a warning about skipped files. `contents`, if not null,
/// gets Corpus::describe_contents(). Throws DataError.
TokenSourcePtr open_text(std::span<const std::string> inputs, const Tokenizer& tokenizer,
                         const TextOptions& options, std::string* contents = nullptr);

/// Throws ConfigError for data.document_mask with a tokenizer that does not say where documents begin.
void require_document_marks(const TextDataConfig& config, const Tokenizer& tokenizer);

/// How a run's windows become batches.
BatchOptions batch_options(const LanguageRun& run);

/// The held-out tokens of a run. `contents` gets what TaskData::contents says of the files that they are part
/// of. Throws as open_language_data.
std::vector<TextSource> open_held_out_text(const RunConfig& run, const Tokenizer& tokenizer,
                                           std::vector<std::pair<std::string, std::string>>& contents);

}  // namespace moh
