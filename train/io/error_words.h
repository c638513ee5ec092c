#pragma once

#include <exception>
#include <string>

namespace moh {

/// What an exception says, for a user: moh's own messages as they are; of the standard library's and of the
/// JSON library's, which name functions and codes, what they mean. "cannot read PATH: no such file" for a
/// file system's error, "out of memory" for std::bad_alloc.
std::string error_words(const std::exception& error);

}  // namespace moh
