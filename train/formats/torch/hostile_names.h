#pragma once

#include <string_view>

namespace moh {

/// Whether a class or function of this name has no business in a file of weights: it runs commands or code,
/// imports modules, or opens files and connections. Nothing that moh reads from a pickle is ever called, so
/// no safety rests on this list being complete; it lets a reader warn of a file that would attack the next
/// program that opens it.
bool is_hostile_name(std::string_view module, std::string_view name);

}  // namespace moh
