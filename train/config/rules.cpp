#include "train/config/rules.h"

#include <algorithm>

namespace moh::config {

void Rules::refuse(std::span<const std::string_view> keys, std::string_view expected, std::string_view found,
                   std::string_view fix) {
  if (std::none_of(keys.begin(), keys.end(), [&](std::string_view key) { return was_refused(key); })) {
    problems_.add(place_of(keys), keys.front(), expected, found, fix);
  }
}

void Rules::refuse(const ConfigFaults& faults) {
  for (const ConfigFaults::Fault& fault : faults.all()) {
    const std::vector<std::string_view> keys(fault.keys.begin(), fault.keys.end());
    refuse(keys, fault.expected, fault.found, fault.fix);
  }
}

bool Rules::was_refused(std::string_view key) const {
  for (std::size_t end = key.size(); end != std::string_view::npos; end = key.rfind('.', end - 1)) {
    if (given_.refused.contains(key.substr(0, end))) return true;
  }
  return false;
}

Mark Rules::place_of(std::span<const std::string_view> keys) const {
  for (std::string_view key : keys) {
    if (const auto place = given_.places.find(key); place != given_.places.end()) return place->second;
  }
  const std::string_view section = preset_key_.substr(0, preset_key_.rfind('.') + 1);
  const auto preset = given_.places.find(preset_key_);
  const bool from_preset =
      preset != given_.places.end() &&
      std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return key.starts_with(section); });
  return from_preset ? preset->second : main_;
}

}  // namespace moh::config
