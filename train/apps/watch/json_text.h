#pragma once

#include <cstdint>
#include <string>

namespace moh::watch {

/// Adds the digits that reading a number back exactly takes; the JSON library writes those of a double.
void add_json(float number, std::string& to);
void add_json(std::uint32_t number, std::string& to);
/// Adds the numbers of a range as a JSON list, each as `number` gives it.
template <class Range, class Number>
void add_json_list(const Range& range, Number number, std::string& to) {
  to += '[';
  for (const auto& each : range) {
    add_json(number(each), to);
    to += ',';
  }
  if (to.back() == ',') to.pop_back();
  to += ']';
}
/// Adds a text, quoted; bytes that are no UTF-8 are replaced.
void add_json(const std::string& text, std::string& to);

}  // namespace moh::watch
