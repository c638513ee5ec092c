#pragma once

#include "train/config/problems.h"

namespace moh::config {

/// Reports the first byte that is not UTF-8, or is a control character other than tab and line end, and
/// returns whether there was none: beyond such a byte nothing can be said about the text.
bool check_characters(const Source& source, Problems& problems);

/// Reports tabs that indent lines, and replaces each by one space: places keep their offsets, and the rest of
/// the text can still be checked. Returns whether there were any.
bool replace_indentation_tabs(Source& source, Problems& problems);

}  // namespace moh::config
