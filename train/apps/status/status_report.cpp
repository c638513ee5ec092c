#include "train/apps/status/status_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "train/base/log/format.h"

namespace moh {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kColumns = 5;
using Cells = std::array<std::string, kColumns>;

std::string steps_text(const RunStatus& run) {
  std::string text = "step " + std::to_string(run.step);
  if (!run.steps || *run.steps == 0) return text;
  const double share = 100.0 * static_cast<double>(run.step) / static_cast<double>(*run.steps);
  return text + " of " + std::to_string(*run.steps) + ", " + format_fixed(share, 0) + "%";
}

std::string time_text(const RunStatus& run) {
  if (run.seconds_left) return format_duration(*run.seconds_left) + " left";
  return run.seconds_since ? format_duration(*run.seconds_since) + " ago" : "";
}

/// "loss 2.31, 12.3k tokens_per_s".
std::string numbers_text(std::span<const LastNumber> numbers) {
  std::string text;
  for (const auto& [key, value] : numbers) {
    text += text.empty() ? "" : ", ";
    text += key.ends_with("_per_s") ? format_count(value) + " " + key : key + " " + format_fixed(value, 4);
  }
  return text;
}

Cells cells_of(const RunStatus& run) {
  std::string numbers = numbers_text(run.training);
  if (run.validated)
    numbers += "; held out at step " + std::to_string(*run.validated) + ": " + numbers_text(run.validation);
  return {run.folder.string(), run.state, steps_text(run), time_text(run), numbers};
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json object(std::span<const LastNumber> numbers) {
  ordered_json found = ordered_json::object();
  for (const auto& [key, value] : numbers) found[key] = value;
  return found;
}

}  // namespace

std::string status_text(std::span<const RunStatus> runs) {
  std::vector<Cells> rows;
  std::array<std::size_t, kColumns> widths{};
  for (const RunStatus& run : runs) {
    rows.push_back(cells_of(run));
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], rows.back()[i].size());
  }
  std::string text;
  for (const Cells& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i)
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string status_json(std::span<const RunStatus> runs) {
  ordered_json found = ordered_json::array();
  for (const RunStatus& run : runs) {
    ordered_json validation = object(run.validation);
    if (run.validated) validation["step"] = *run.validated;
    found.push_back({{"folder", run.folder.string()},
                     {"state", run.state},
                     {"step", run.step},
                     {"steps", or_null(run.steps)},
                     {"seconds_left", or_null(run.seconds_left)},
                     {"seconds_since", or_null(run.seconds_since)},
                     {"training", object(run.training)},
                     {"validation", validation}});
  }
  return found.dump(2) + '\n';
}

}  // namespace moh
