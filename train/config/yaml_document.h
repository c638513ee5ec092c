#pragma once

#include "train/config/value.h"

namespace moh::config {

struct Document {
  Value root;
  bool complete = true;  ///< false if a part of the text could not be read, so that keys may be missing
};

/// Reads a text as one YAML document, in a subset of YAML without surprises: maps with plain keys, lists,
/// scalars. Duplicate keys, merge keys, anchors, aliases, tags, keys that are not text, second documents and
/// nesting deeper than kMaxDepth are reported and left out. A syntax error is reported and ends the document;
/// the part before it is returned.
///
/// The root of an empty text is kNull. Indentation tabs in `source.text` are replaced (see
/// replace_indentation_tabs).
Document read_yaml(Source& source, Problems& problems);

inline constexpr int kMaxDepth = 16;

}  // namespace moh::config
