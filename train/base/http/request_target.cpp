#include "train/base/http/request_target.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace moh {

namespace {

bool starts_with_scheme(std::string_view target, std::string_view scheme) {
  return std::ranges::equal(target.substr(0, scheme.size()), scheme, {},
                            [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::optional<std::string> path_of_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!starts_with_scheme(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t host = std::min(target.find_first_of("/?"), target.size());
    if (host == 0) return std::nullopt;
    target.remove_prefix(host);
    if (!target.starts_with('/')) return "/";
  }
  if (target == "*") return "*";
  if (!target.starts_with('/')) return std::nullopt;
  return unescaped(target.substr(0, target.find_first_of("?#")));
}

std::string query_of_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const std::size_t begin = target.find('?');
  return begin == std::string_view::npos ? std::string() : std::string(target.substr(begin + 1));
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (!pair.starts_with(name) || !pair.substr(name.size()).starts_with('=')) continue;
    std::string value(pair.substr(name.size() + 1));
    std::ranges::replace(value, '+', ' ');
    return unescaped(value);
  }
  return std::nullopt;
}

}  // namespace moh
