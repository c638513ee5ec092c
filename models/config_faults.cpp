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
