#include "train/families/images/label_names.h"

#include <algorithm>
#include <charconv>

#include "train/base/io/printable.h"

namespace moh {

namespace {

/// The label that a key of JSON stands for; -1 for another text.
std::int64_t label_of(std::string_view key) {
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), label);
  return error == std::errc() && end == key.data() + key.size() ? label : -1;
}

/// Empty if a label is not below `classes`.
std::vector<std::string> names_by_label(const ConfigJson& json, std::int64_t classes) {
  const ConfigJson object = json.object(kLabelNames);
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < classes; ++label) names.push_back(std::to_string(label));
  for (const std::string& key : object.keys()) {
    const std::int64_t label = label_of(key);
    if (label < 0) json.damaged(kLabelNames, "labels from 0 on", printable(key));
    if (label >= classes) return {};
    names[static_cast<std::size_t>(label)] = object.text(key);
  }
  return names;
}

}  // namespace

std::vector<std::string> read_label_names(const ConfigJson& json, std::int64_t classes) {
  if (!json.has(kLabelNames)) return {};
  std::vector<std::string> names =
      json.is_list(kLabelNames) ? json.texts(kLabelNames) : names_by_label(json, classes);
  if (std::ssize(names) != classes) return {};
  for (const std::string& name : names) {
    if (name.empty() || printable(name, name.size()) != name)
      json.damaged(kLabelNames, "names without control characters", "'" + printable(name) + "'");
  }
  return names;
}

bool say_more_than_numbers(std::span<const std::string> class_names) {
  for (std::size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i] != std::to_string(i)) return true;
  }
  return false;
}

}  // namespace moh
