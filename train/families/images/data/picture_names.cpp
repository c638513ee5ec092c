#include "train/families/images/data/picture_names.h"

#include <algorithm>
#include <cctype>

namespace moh {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_picture_extension(std::string_view extension) {
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

bool is_picture_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && is_picture_extension(lower_case(name.substr(dot + 1)));
}

bool is_hidden_name(std::string_view name) {
  return name.starts_with('.') || name == "__MACOSX";
}

bool is_hidden_path(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part != "." && part != ".." && is_hidden_name(part)) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace moh
