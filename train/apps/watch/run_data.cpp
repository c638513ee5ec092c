#include "train/apps/watch/run_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace moh::watch {

using nlohmann::json;

namespace {

constexpr std::size_t kMostSeries = 1024, kMostName = 128;
constexpr std::size_t kPiece = 4 << 20;
/// Records have lists of lists at most; the JSON library's memory for deeper ones is another matter.
constexpr int kMostNesting = 8;

bool is_shallow(std::string_view line) {
  int depth = 0;
  for (const char c : line) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMostNesting) return false;
  }
  return true;
}

std::string text_at(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::uint32_t> step_of(const json& record) {
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto step = found->get<std::uint64_t>();
  if (step > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(step);
}

/// The numbers of a list of lists; nothing if it is another kind of value.
std::optional<std::vector<std::vector<float>>> rows_of(const json& value) {
  std::vector<std::vector<float>> rows;
  for (const json& row : value) {
    if (!row.is_array() || !std::ranges::all_of(row, [](const json& each) { return each.is_number(); }))
      return std::nullopt;
    rows.push_back(row.get<std::vector<float>>());
  }
  return rows;
}

std::string layer_name(std::string name, std::size_t layer) {
  name += "/layer_";
  name += std::to_string(layer);
  return name;
}

}  // namespace

bool RunData::advance(const DataLimits& limits) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t before = lines_.bytes_read();
  const bool more = lines_.advance(
      kPiece, [this] { restart(); }, [this](std::string_view line) { add_record(line); });
  const bool is_new = lines_.bytes_read() != before;
  const bool is_other = std::exchange(waits_, more) != more;
  if (keep_within(limits) || is_new || is_other) ++revision_;
  return more;
}

void RunData::restart() {
  series_.clear();
  heads_ = {};
  last_step_ = 0;
  ++revision_;
}

void RunData::add_record(std::string_view line) {
  if (!is_shallow(line)) return;
  const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return;
  const std::string kind = text_at(record, "kind");
  const std::optional<std::uint32_t> step = step_of(record);
  if (kind.empty() || kind.size() > kMostName || !step) return;
  last_step_ = *step;
  if (const std::string event = text_at(record, "event"); !event.empty())
    add_number("event/" + event, *step, 1.0);
  for (const auto& [field, value] : record.items()) {
    if (field == "step" || field == "unix_time" || field == "kind") continue;
    std::string name = kind;
    name.append("/").append(field);
    if (value.is_number()) add_number(name, *step, value.get<double>());
    if (!value.is_array()) continue;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (value[i].is_number()) add_number(layer_name(name, i), *step, value[i].get<double>());
    if (field != "head_load") continue;
    if (const auto loads = rows_of(value)) heads_.add(*step, *loads);
  }
}

void RunData::add_number(const std::string& name, std::uint32_t step, double value) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number) || name.size() > kMostName) return;
  auto found = series_.find(name);
  if (found == series_.end()) {
    if (series_.size() >= kMostSeries) return;
    found = series_.emplace(name, Series()).first;
  }
  found->second.add({step, number});
}

bool RunData::keep_within(const DataLimits& limits) {
  heads_.limit(limits.frame_bytes);
  const auto count = [](const auto& entry) { return entry.second.points().size(); };
  std::size_t points = 0;
  for (const auto& entry : series_) points += count(entry);
  const bool is_within = points <= limits.points;
  while (points > limits.points) {
    const auto longest = std::ranges::max_element(series_, {}, count);
    const std::size_t before = count(*longest);
    longest->second.halve();
    if (count(*longest) == before) break;  // one or two points are left of each
    points -= before - count(*longest);
  }
  return !is_within;
}

RunData::Facts RunData::facts() const {
  const std::scoped_lock lock(mutex_);
  Facts facts{revision_, waits_ ? 0.0 : 1.0, last_step_, {}};
  if (waits_ && lines_.bytes() > 0)
    facts.loaded = static_cast<double>(lines_.bytes_read()) / static_cast<double>(lines_.bytes());
  for (const auto& [name, series] : series_) facts.names.push_back(name);
  return facts;
}

void RunData::with_points(std::string_view name, FunctionRef<void(std::span<const Point>)> use) const {
  const std::scoped_lock lock(mutex_);
  const auto found = series_.find(name);
  use(found == series_.end() ? std::span<const Point>() : found->second.points());
}

HeadFrames RunData::heads() const {
  const std::scoped_lock lock(mutex_);
  return heads_;
}

}  // namespace moh::watch
