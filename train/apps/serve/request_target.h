#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// The path of a request's target: "/v1/models/a b" of "/v1/models/a%20b?x=1" and of
/// "http://host:80/v1/models/a%20b" (absolute form, RFC 9112, 3.2.2). Escapes that are none stay as they are.
/// "*" is a path, too; nothing for any other target.
std::optional<std::string> path_of_target(std::string_view target);

}  // namespace moh
