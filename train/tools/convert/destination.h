#pragma once

#include "train/tools/convert/convert.h"

namespace moh {

/// Whether a conversion writes one file, not a folder.
bool is_file_output(const ConvertOptions& options);

/// Throws ConfigError when options.to is taken and may not be replaced, when to replace it would lose what a
/// conversion cannot have written (folders, optimiser state), or when it holds the source.
void check_destination(const ConvertOptions& options, const ModelLocation& source);

}  // namespace moh
