#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// A piece of a template.
struct JinjaToken {
  enum class Kind {
    kText,         ///< between the tags, after the treatment of white space
    kOutputBegin,  ///< {{
    kOutputEnd,
    kBlockBegin,  ///< {%
    kBlockEnd,
    kName,
    kString,  ///< its value
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;
};

/// Cuts a template into tokens, with the settings of transformers: trim_blocks and lstrip_blocks, and without
/// a line feed at the end of the template. The last token is kEnd. Throws TemplateError, naming `where` and
/// the line.
std::vector<JinjaToken> jinja_tokens(std::string_view where, std::string_view source);

}  // namespace moh
