#include "train/run/config_change.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/config/run_fields.h"
#include "train/config/write_fields.h"
#include "train/log/logging.h"

namespace moh {

namespace {

/// Keys, or beginnings of keys, of harmless fields.
constexpr std::array<std::string_view, 10> kHarmless = {
    "threads",     "cuda_graph", "output.", "log.",  "eval.",
    "checkpoint.", "sample.",    "guard.",  "init.", "train.stop_after_seconds"};

/// Keys that decide together where the cosine of the learning rate ends.
constexpr std::array<std::string_view, 2> kCosineEnd = {"train.steps", "schedule.decay_steps"};

bool same_rates(const RunConfig& before, const RunConfig& now) {
  const LrSchedule a = lr_schedule_of(before), b = lr_schedule_of(now);
  return a.decay_steps == b.decay_steps || (a.kind == LrSchedule::Kind::kConstant && b.kind == a.kind);
}

bool is_harmless(std::string_view key, const RunConfig& before, const RunConfig& now) {
  if (std::ranges::find(kCosineEnd, key) != kCosineEnd.end()) return same_rates(before, now);
  return std::ranges::any_of(kHarmless, [&](std::string_view name) {
    return name.ends_with('.') ? key.starts_with(name) : key == name;
  });
}

void collect(const config::Section& section, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& values) {
  for (const config::Field& field : section.fields()) {
    values.emplace_back(config::join_key(prefix, field.name), config::value_yaml(field));
  }
  for (const config::Section& child : section.sections()) {
    collect(child, config::join_key(prefix, child.name()), values);
  }
}

std::vector<std::pair<std::string, std::string>> values_of(RunConfig& run) {
  std::vector<std::pair<std::string, std::string>> values;
  collect(config::describe(run, {}), "", values);
  return values;
}

std::string text_of(const ConfigChange& change) {
  return change.key + ": " + change.before + " -> " + change.now;
}

}  // namespace

std::vector<ConfigChange> config_changes(RunConfig before, RunConfig now) {
  if (before.task != now.task) return {{"task", before.task, now.task}};
  const auto old_values = values_of(before), new_values = values_of(now);
  std::vector<ConfigChange> changes;
  for (std::size_t i = 0; i < old_values.size(); ++i) {
    const auto& [key, value] = old_values[i];
    if (value != new_values[i].second)
      changes.push_back({key, value, new_values[i].second, is_harmless(key, before, now)});
  }
  return changes;
}

void review_config_changes(const RunConfig& before, const RunConfig& now, bool allow) {
  std::string refused;
  for (const ConfigChange& change : config_changes(before, now)) {
    if (change.harmless) {
      log_info("resume: " + text_of(change));
    } else if (allow) {
      log_warning("resume: " + text_of(change) + ": the run is no longer the one that the checkpoint began");
    } else {
      refused += "\n  " + text_of(change);
      if (change.key == "train.steps") {
        refused +=
            " (the cosine ends there; schedule.decay_steps=" + change.before + " leaves it where it was)";
      }
    }
  }
  if (refused.empty()) return;
  throw ConfigError(
      "resume: the configuration changes what the steps compute:" + refused +
      "\nset these back, pass --allow-changes to go on all the same, or start a new run in another "
      "output.dir");
}

}  // namespace moh
