#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/families/language/data/token_batch.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

struct RunConfig;

/// How documents in one sequence are kept apart, as data.document_mask and data.reset_positions say.
struct AnalyzedDocuments {
  bool mask = false, reset_positions = false;
};

/// The inputs for the analysis of a language model's heads on texts with names. The model must outlive the
/// result. Throws ValueError for options out of range, DataError for texts that cannot be used.
AnalysisInputs analysis_of_texts(const Llama& model, const Tokenizer& tokenizer,
                                 const std::vector<TextSource>& sources, const AnalyzeOptions& options,
                                 const AnalyzedDocuments& documents = {});

/// The inputs for the texts of files, or for the run's held-out text, by source, if no file is named.
AnalysisInputs analysis_of_files(const RunConfig& run, const Llama& model,
                                 std::span<const AnalyzedFiles> files, AnalyzeOptions options);

}  // namespace moh
