#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// The path of a request's target: "/v1/models/a b" of "/v1/models/a%20b?x=1" and of
/// "http://host:80/v1/models/a%20b" (absolute form, RFC 9112, 3.2.2). Escapes that are none stay as they are.
/// "*" is a path, too; nothing for any other target.
std::optional<std::string> path_of_target(std::string_view target);

/// The query of a target, behind its first '?' and without a fragment; "" if there is none.
std::string query_of_target(std::string_view target);
/// The value of `name` in a query such as "runs=1,2&name=train%2Floss", unescaped, '+' as a space; nothing
/// without that name.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace moh
