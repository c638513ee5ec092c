#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moh {

/// Methods of Python's str, on valid UTF-8. Case is that of single characters (Unicode's simple mappings).
std::string_view python_lstrip(std::string_view text);
std::string_view python_rstrip(std::string_view text);
std::string_view python_strip(std::string_view text);
std::string python_lower(std::string_view text);
std::string python_capitalize(std::string_view text);
/// len(text): its characters.
std::int64_t python_length(std::string_view text);
/// len(re.split(r"\s+", text)): one more than there are stretches of white space.
std::int64_t count_split_words(std::string_view text);

}  // namespace moh
