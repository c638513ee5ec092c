#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace moh {

/// The one of a family's presets that is called `name`, or null.
template <class Presets>
auto find_preset(const Presets& presets, std::string_view name) {
  const std::span all(presets);
  const auto found = std::ranges::find_if(all, [&](const auto& preset) { return preset.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace moh
