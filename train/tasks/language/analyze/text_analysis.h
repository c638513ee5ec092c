#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/config/run_config.h"
#include "train/tasks/analysis_inputs.h"
#include "train/tasks/language/data/token_source.h"
#include "train/tasks/language/data/tokenizer.h"

namespace moh {

/// A text, or several, under a name.
struct TextSource {
  std::string name;
  TokenSourcePtr tokens;
};

/// Texts for the analysis of a language model's heads. `options` say how long the sequences are and how many
/// make a batch. The model outlives the result. Throws ValueError for options out of range, DataError for
/// texts that cannot be used.
AnalysisInputs analysis_of_texts(const Llama& model, const Tokenizer& tokenizer,
                                 const std::vector<TextSource>& sources, const AnalyzeOptions& options);

/// The same for the texts of files, or the one that the run held out when none is named.
AnalysisInputs analysis_of_files(const RunConfig& run, const Llama& model,
                                 std::span<const AnalyzedFiles> files, AnalyzeOptions options);

}  // namespace moh
