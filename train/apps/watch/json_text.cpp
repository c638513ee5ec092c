#include "train/apps/watch/json_text.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace moh::watch {

namespace {

template <class Number>
void add_digits(Number number, std::string& to) {
  char digits[32];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

void add_json(float number, std::string& to) {
  add_digits(number, to);
}

void add_json(std::uint32_t number, std::string& to) {
  add_digits(number, to);
}

void add_json(const std::string& text, std::string& to) {
  to += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace moh::watch
