#include "train/families/images/class_names.h"

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kClasses = "classes";

void read_names(const std::filesystem::path& path, std::vector<std::string>& names) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const std::string text = read_text_file(path, InputKind::kData, kMostBytes);
  for (std::string& name : lines_of(text)) names.push_back(std::move(name));
  if (names.back().empty()) names.pop_back();  // the last line ends as the others
}

void check_number(const std::vector<std::string>& names, const GivenClasses& given) {
  const std::int64_t classes = std::ssize(names);
  if (classes == given.classes) return;
  const char* const whose =
      given.files.empty() ? "the classes of data.train" : "the names of data.class_names";
  throw ConfigError(error_message("model.classes", "", std::to_string(classes) + ", " + whose,
                                  std::to_string(given.classes)));
}

}  // namespace

std::vector<std::string> given_names(const GivenClasses& given) {
  if (given.files.empty()) return given.known;
  std::vector<std::string> names;
  for (const std::filesystem::path& path : given.files) read_names(path, names);
  return names;
}

void check_class_names(const std::vector<std::string>& names, const GivenClasses& given) {
  for (const std::string& name : names) {
    if (!name.empty() && printable(name, name.size()) == name) continue;
    throw DataError(error_message("data", "name of a class", "UTF-8 text without control characters",
                                  "'" + printable(name) + "'", "rename its folder"));
  }
  check_number(names, given);
}

std::vector<std::string> class_names_of(const GivenClasses& given) {
  std::vector<std::string> names = given_names(given);
  if (!names.empty()) check_class_names(names, given);
  for (std::int64_t i = std::ssize(names); i < given.classes; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::pair<std::string, std::string> identity_of(std::span<const std::string> class_names) {
  std::string lines;
  for (const std::string& name : class_names) lines += (lines.empty() ? "" : "\n") + name;
  return {std::string(kClasses), lines};
}

std::vector<std::string> class_names_in(std::span<const std::pair<std::string, std::string>> identity,
                                        std::vector<std::string> otherwise) {
  for (const auto& [name, lines] : identity) {
    if (name == kClasses) otherwise = lines_of(lines);
  }
  return otherwise;
}

}  // namespace moh
