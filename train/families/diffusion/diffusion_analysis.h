#pragma once

#include <span>

#include "models/diffusion/dit.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

struct RunConfig;

/// The pictures of `files`, or the held-out ones of the run, made noisy: those of each class at steps all
/// over the process, and then some of all classes in each quarter of it, which are sources of their own.
/// Throws DataError, and ValueError for options that are about texts.
AnalysisInputs analysis_of_noisy_pictures(const RunConfig& run, const Dit& model,
                                          std::span<const AnalyzedFiles> files,
                                          const AnalyzeOptions& options);

}  // namespace moh
