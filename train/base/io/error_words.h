#pragma once

#include <exception>
#include <string>

namespace moh {

/// The text of an exception, for a user: moh's own messages as they are; for those of the standard library
/// and of the JSON library, which name functions and codes, their meaning. "cannot read PATH: no such file"
/// for a file system's error, "out of memory" for std::bad_alloc.
std::string error_words(const std::exception& error);

}  // namespace moh
