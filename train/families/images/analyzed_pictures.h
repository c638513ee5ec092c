#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/families/images/data/picture_source.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

using LabelledSourcePtr = std::shared_ptr<const LabelledSource>;

/// A picture of a source of an analysis.
struct AnalyzedPicture {
  LabelledSourcePtr pictures;
  std::int64_t index = 0;
  std::int32_t source = 0;
};

/// At most `most` pictures, spread evenly, of each class of the held-out pictures, or of those of one group
/// of files, which `open` opens; of several groups each is a source. Appends what they are to the sources and
/// contents of `inputs`. Throws DataError.
std::vector<AnalyzedPicture> analyzed_pictures(
    std::span<const AnalyzedFiles> files,
    FunctionRef<LabelledSourcePtr(const std::vector<std::string>& paths)> open,
    FunctionRef<LabelledSourcePtr()> held_out, std::int64_t most, AnalysisInputs& inputs);

/// Throws ValueError for options that are about texts.
void refuse_text_options(const AnalyzeOptions& options);

}  // namespace moh
