#include "train/base/measure/row.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace moh {

namespace {

std::string text_of(const Row::Value& value, const Row::Format& format) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  char text[64];
  std::snprintf(text, sizeof text, format.printf, format.digits, std::get<double>(value) * format.scale);
  return text;
}

void append_cell(std::string& line, const std::string& text, int width) {
  const auto wide = static_cast<std::size_t>(std::abs(width));
  const std::string blanks(wide - std::min(wide, text.size()), ' ');
  if (!line.empty()) line += "  ";
  line += width < 0 ? text + blanks : blanks + text;
}

std::string without_blanks_at_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

void Row::add(std::string_view name, Value value) {
  members_.emplace_back(name, std::move(value));
}

void Row::add(std::string_view name, Value value, const Column& column) {
  show(column, value);
  add(name, std::move(value));
}

void Row::show(const Column& column, const Value& value) {
  const int least = static_cast<int>(column.title.size());
  const int width = column.width < 0 ? std::min(column.width, -least) : std::max(column.width, least);
  append_cell(head_, std::string(column.title), width);
  append_cell(line_, text_of(value, column.format), width);
}

std::string Row::json() const {
  nlohmann::ordered_json object;
  for (const auto& [name, value] : members_) {
    std::visit([&, &key = name](const auto& plain) { object[key] = plain; }, value);
  }
  return object.dump() + '\n';
}

std::string Row::table_head() const {
  return without_blanks_at_end(head_);
}

std::string Row::table_line() const {
  return without_blanks_at_end(line_);
}

}  // namespace moh
