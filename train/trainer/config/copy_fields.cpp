#include "train/trainer/config/copy_fields.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/error.h"

namespace moh::config {

namespace {

void copy(const Field& from, const Field& to) {
  std::visit(
      [&]<class T>(const T& target) {
        const T& source = std::get<T>(from.target);
        if constexpr (std::is_pointer_v<T>) {
          *target = *source;
        } else if constexpr (std::is_same_v<T, Choice>) {
          target.set(
              static_cast<std::size_t>(std::ranges::find(source.names, source.get()) - source.names.begin()));
        } else {
          fail_check(__FILE__, __LINE__, "copy_fields", "a list of maps is no field of a model");
        }
      },
      to.target);
}

}  // namespace

void copy_fields(const FamilyConfig& from, std::span<const std::string> keys, FamilyConfig& to) {
  const std::unique_ptr<FamilyConfig> source = from.clone();  // a field list needs a struct that is not const
  Section source_root("", ""), root("", "");
  source->describe(source_root);
  to.describe(root);
  const std::vector<KeyedField> sources = all_fields(source_root), targets = all_fields(root);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (std::ranges::count(keys, targets[i].key) > 0) copy(*sources[i].field, *targets[i].field);
  }
}

}  // namespace moh::config
