#pragma once

#include <span>

#include "models/vision/image_model.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

struct RunConfig;

/// Pictures for an analysis of the heads of a classifier. Without `files` they are those that the run held
/// out, and each class is a source; likewise of a single group of files. Several groups are a source each. Of
/// a source at most options.max_tokens tokens of the finest grid are taken, at least one picture, spread
/// evenly over it. Throws DataError, also for a broken picture, and ValueError for options about texts.
AnalysisInputs analysis_of_pictures(const RunConfig& run, const ImageModel& model,
                                    std::span<const AnalyzedFiles> files, const AnalyzeOptions& options);

}  // namespace moh
