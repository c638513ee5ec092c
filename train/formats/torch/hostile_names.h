#pragma once

#include <string_view>

namespace moh {

/// Whether a class or function of this name is a well-known one that has no business in a file of weights: it
/// runs commands or code, imports modules, or opens files and connections. No list of such names is complete,
/// and no safety rests on this one, since nothing that moh reads from a pickle is ever called; it lets a
/// reader warn of many a file that would attack the next program that opens it.
bool is_hostile_name(std::string_view module, std::string_view name);

}  // namespace moh
