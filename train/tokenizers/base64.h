#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// Base64 with padding (RFC 4648, section 4).
std::string to_base64(std::string_view bytes);

/// The bytes of a text in base64; nothing for another text, and for an empty one.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace moh
