#pragma once

#include <string>
#include <string_view>

namespace moh {

/// The headings and paragraphs of a Markdown text, each in a line of its own, an empty line between them:
/// without code, tables, pictures and marks, and of a link its text alone.
std::string prose_of(std::string_view markdown);

}  // namespace moh
