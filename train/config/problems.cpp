#include "train/config/problems.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace moh::config {

std::string Mark::text() const {
  if (!source->is_file || offset == kWhole) return source->name;
  const std::string_view before = std::string_view(source->text).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  const auto starts_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  const auto column = 1 + std::ranges::count_if(before.substr(line_start), starts_character);
  return source->name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

void Problems::add(Mark mark, std::string_view key, std::string_view expected, std::string_view found,
                   std::string_view fix) {
  add(mark, error_message(key, "", expected, found, fix));
}

void Problems::add(Mark mark, std::string text) {
  ++count_;
  if (!full()) problems_.push_back({mark, std::move(text)});
}

void Problems::throw_if_any() const {
  if (empty()) return;
  std::vector<Problem> sorted = problems_;
  std::ranges::stable_sort(sorted, {}, [](const Problem& p) {
    // Problems of a source as a whole come before those inside it: kWhole + 1 == 0.
    return std::pair(p.mark.source->order, p.mark.offset + 1);
  });
  std::string message;
  for (const Problem& problem : sorted) {
    if (!message.empty()) message += '\n';
    message += problem.mark.text() + ": " + problem.text;
  }
  if (count_ > sorted.size()) {
    message += "\n... and " + std::to_string(count_ - sorted.size()) + " more";
  }
  throw ConfigError(message);
}

void Rules::refuse(const std::vector<std::string>& keys, std::string_view expected, std::string_view found,
                   std::string_view fix) {
  if (std::ranges::none_of(keys, [&](const std::string& key) { return was_refused(key); }))
    problems_.add(place_of(keys), keys.front(), expected, found, fix);
}

void Rules::refuse(const ConfigFaults& faults) {
  for (const ConfigFaults::Fault& f : faults.all()) refuse(f.keys, f.expected, f.found, f.fix);
}

bool Rules::was_refused(std::string_view key) const {
  for (std::size_t end = key.size(); end != std::string_view::npos; end = key.rfind('.', end - 1)) {
    if (given_.refused.contains(key.substr(0, end))) return true;
  }
  return false;
}

Mark Rules::place_of(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (const auto place = given_.places.find(key); place != given_.places.end()) return place->second;
  }
  const auto preset = given_.places.find(preset_key_);
  const std::string_view section = preset_key_.substr(0, preset_key_.rfind('.') + 1);
  const auto is_filled_in = [&](const std::string& key) { return key.starts_with(section); };
  return preset != given_.places.end() && std::ranges::any_of(keys, is_filled_in) ? preset->second : main_;
}

}  // namespace moh::config
