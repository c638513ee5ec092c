#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace moh {

/// The one of a family's presets that is called `name`, or null.
template <class Presets>
auto find_preset(const Presets& presets, std::string_view name) {
  const std::span all(presets);
  const auto found = std::ranges::find_if(all, [&](const auto& preset) { return preset.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The configuration of the preset that is called `name`, which is one of them.
template <class Presets>
auto preset_config(const Presets& presets, std::string_view name) {
  const auto* const found = find_preset(presets, name);
  MOH_CHECK(found != nullptr, "preset_config: the name of a preset");
  return found->config;
}

/// Their names, in order.
template <class Presets>
std::vector<std::string> preset_names(const Presets& presets) {
  std::vector<std::string> names;
  for (const auto& preset : presets) names.emplace_back(preset.name);
  return names;
}

}  // namespace moh
