#pragma once

#include <string_view>

#include "train/base/jinja/jinja_syntax.h"

namespace moh {

/// The statements of a template. Throws TemplateError, naming `where` and the line.
JinjaBody parse_jinja(std::string_view where, std::string_view source);

}  // namespace moh
