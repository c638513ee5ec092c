#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "train/tasks/analysis_inputs.h"
#include "train/tasks/images/data/picture_source.h"

namespace moh {

/// A picture of a source of an analysis.
struct AnalyzedPicture {
  PictureSourcePtr pictures;
  std::int64_t index = 0;
  std::int32_t source = 0;
};

/// At most `most` pictures, spread evenly, of each class of the held-out pictures, or of those of one group
/// of files; of several groups each is a source. Appends what they are to `sources`. Throws DataError.
std::vector<AnalyzedPicture> analyzed_pictures(std::span<const AnalyzedFiles> files,
                                               FunctionRef<PictureSourcePtr()> held_out, std::int64_t most,
                                               std::vector<AnalyzedSource>& sources);

/// Throws ValueError for options that are about texts.
void refuse_text_options(const AnalyzeOptions& options);

}  // namespace moh
