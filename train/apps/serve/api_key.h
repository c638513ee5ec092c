#pragma once

#include <string_view>

namespace moh {

/// Whether the value of the header Authorization is "Bearer KEY" with this key. The time that it takes says
/// nothing of how much of the key is right.
bool has_api_key(std::string_view authorization, std::string_view key);

}  // namespace moh
