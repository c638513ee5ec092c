#include "train/run/metric_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace moh {

namespace {

std::string quoted(std::string_view text) {
  // Text may come from file names: what is no UTF-8 must not make the line unreadable.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Number>
std::string shortest(Number value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

MetricRecord::MetricRecord(std::string_view kind, std::int64_t step) : step_(step) {
  add("kind", kind);
  add("step", step);
}

MetricRecord& MetricRecord::add_integer(std::string_view key, std::int64_t value) {
  start_field(key);
  fields_ += shortest(value);
  return *this;
}

MetricRecord& MetricRecord::add(std::string_view key, double value) {
  start_field(key);
  append_number(key, value);
  return *this;
}

MetricRecord& MetricRecord::add(std::string_view key, float value) {
  start_field(key);
  append_number(key, value);
  return *this;
}

MetricRecord& MetricRecord::add(std::string_view key, std::string_view value) {
  start_field(key);
  fields_ += quoted(value);
  return *this;
}

MetricRecord& MetricRecord::add(std::string_view key, std::span<const std::vector<float>> lists) {
  start_field(key);
  fields_ += '[';
  for (const std::vector<float>& list : lists) {
    if (fields_.back() == ']') fields_ += ',';
    fields_ += '[';
    for (float value : list) {
      if (fields_.back() != '[') fields_ += ',';
      append_number(key, value);
    }
    fields_ += ']';
  }
  fields_ += ']';
  return *this;
}

std::string MetricRecord::to_json() const {
  std::string line = "{" + fields_;
  if (!non_finite_.empty()) line += ",\"non_finite\":{" + non_finite_ + "}";
  return line + "}";
}

void MetricRecord::start_field(std::string_view key) {
  const bool known = std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  MOH_CHECK(!known && key != "non_finite", "metrics: key '" + std::string(key) + "' twice in one record");
  keys_.emplace_back(key);
  if (!fields_.empty()) fields_ += ',';
  fields_ += quoted(key) + ":";
}

template <class Float>
void MetricRecord::append_number(std::string_view key, Float value) {
  if (std::isfinite(value)) {
    fields_ += shortest(value);
    return;
  }
  fields_ += "null";
  const std::string flag = quoted(key) + ":";
  if (non_finite_.find(flag) != std::string::npos) return;  // a list names its first one
  if (!non_finite_.empty()) non_finite_ += ',';
  non_finite_ += flag + (std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
}

}  // namespace moh
