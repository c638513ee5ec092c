#include "train/trainer/config/within_bounds.h"

#include <algorithm>
#include <variant>

namespace moh::config {

namespace {

bool is_within(const Field& field) {
  const auto fits = [&](std::int64_t number) { return field.bounds.contains(static_cast<double>(number)); };
  if (const auto* const number = std::get_if<std::int64_t*>(&field.target)) return fits(**number);
  if (const auto* const list = std::get_if<std::vector<std::int64_t>*>(&field.target))
    return std::ranges::all_of(**list, fits);
  return true;
}

}  // namespace

bool within_bounds(FamilyConfig& family) {
  Section root("", "");
  family.describe(root);
  return std::ranges::all_of(all_fields(root), [](const KeyedField& each) { return is_within(*each.field); });
}

}  // namespace moh::config
