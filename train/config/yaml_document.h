#pragma once

#include "train/config/value.h"

namespace moh::config {

struct Document {
  Value root;
  bool complete = true;  ///< false when a part of the text could not be read and keys may be missing
};

/// Reads a text as one YAML document, or rather as the part of YAML in which nothing can be misread: maps
/// with plain keys, lists, scalars. Duplicate keys, merge keys, anchors, aliases, tags, keys that are no
/// text, second documents and nesting deeper than kMaxDepth are reported and left out; a syntax error is
/// reported and ends the document, what stands before it is returned.
///
/// An empty text gives kNull. Indentation tabs in `source.text` are replaced (see replace_indentation_tabs).
Document read_yaml(Source& source, Problems& problems);

inline constexpr int kMaxDepth = 16;

}  // namespace moh::config
