#include "models/config_faults.h"

#include <charconv>
#include <utility>

#include "core/error.h"

namespace moh {

std::string number_text(std::int64_t number) {
  return std::to_string(number);
}

std::string number_text(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

std::string ConfigFaults::key(std::string_view field) const {
  for (const Elsewhere& other : elsewhere_) {
    const bool part = other.field.ends_with('.');
    if (part ? field.starts_with(other.field) : field == other.field)
      return std::string(other.key) + std::string(field.substr(other.field.size()));
  }
  return section_ + std::string(field);
}

void ConfigFaults::add(std::initializer_list<std::string_view> fields, std::string expected,
                       std::string found, std::string fix) {
  Fault fault{{}, std::move(expected), std::move(found), std::move(fix)};
  for (const std::string_view field : fields) fault.keys.push_back(key(field));
  faults_.push_back(std::move(fault));
}

void ConfigFaults::throw_first(std::string_view where) const {
  if (faults_.empty()) return;
  const Fault& fault = faults_.front();
  throw ValueError(error_message(where, fault.keys.front(), fault.expected, fault.found, fault.fix));
}

}  // namespace moh
