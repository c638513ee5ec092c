#include "train/tasks/data/data_contents.h"

namespace moh {

namespace {

constexpr std::string_view kMark = ", of contents ";

bool has_contents(std::string_view text) {
  return text.find(kMark) != std::string_view::npos;
}

std::string_view without_contents(std::string_view text) {
  return text.substr(0, text.find(kMark));
}

}  // namespace

std::string with_contents(std::string_view description, std::string_view checksum) {
  return std::string(description).append(kMark).append(checksum);
}

bool same_data(std::string_view a, std::string_view b) {
  if (a == b) return true;
  return has_contents(a) != has_contents(b) && without_contents(a) == without_contents(b);
}

}  // namespace moh
