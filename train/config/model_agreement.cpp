#include "train/config/model_agreement.h"

#include <algorithm>
#include <string>

#include "train/config/write_fields.h"

namespace moh {

namespace {

void compare(const config::Section& ours, const config::Section& source, const std::string& prefix,
             std::span<const std::string_view> free, std::vector<ModelDisagreement>& found) {
  const auto is_free = [&](const std::string& key) { return std::ranges::find(free, key) != free.end(); };
  for (std::size_t i = 0; i < ours.fields().size(); ++i) {
    const std::string key = config::join_key(prefix, ours.fields()[i].name);
    const std::string expected = config::value_yaml(source.fields()[i]);
    const std::string value = config::value_yaml(ours.fields()[i]);
    if (!is_free(key) && value != expected) found.push_back({key, expected, value});
  }
  for (std::size_t i = 0; i < ours.sections().size(); ++i) {
    const std::string key = config::join_key(prefix, ours.sections()[i].name());
    if (!is_free(key)) compare(ours.sections()[i], source.sections()[i], key, free, found);
  }
}

}  // namespace

std::vector<ModelDisagreement> disagreements_of(const config::Section& ours, const config::Section& source,
                                                std::span<const std::string_view> free) {
  std::vector<ModelDisagreement> found;
  compare(ours, source, std::string(ours.name()), free, found);
  return found;
}

}  // namespace moh
