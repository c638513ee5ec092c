#pragma once

#include <string_view>

namespace moh {

/// Whether a class or function of this name is a known one that cannot belong to weights: it runs commands or
/// code, imports modules, or opens files and connections. The list is not complete, and moh's safety does not
/// depend on it, as nothing from a pickle is ever called; it serves to warn of files that would attack other
/// programs.
bool is_hostile_name(std::string_view module, std::string_view name);

}  // namespace moh
