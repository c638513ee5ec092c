#include "train/trainer/run/config_change.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/base/log/logging.h"
#include "train/config/write_fields.h"
#include "train/trainer/config/load_run_config.h"

namespace moh {

namespace {

/// Steps of an epoch, whose true number is not known here: one that nobody gives as a number of steps.
constexpr std::int64_t kSomeSteps = 1'000'003;

LrSchedule schedule_of(const RunConfig& run) {
  return rates_of(run, length_of(run, kSomeSteps)).schedule;
}

bool counts_epochs(const RunConfig& run) {
  const EpochSchedule& c = run.schedule_epochs;
  return run.train.epochs > 0 || c.warmup > 0 || c.decay > 0 || c.cooldown > 0 || !c.stepwise;
}

/// Whether a run of `now` would have had the learning rates of `before` so far, in all of the first `step`
/// steps. Of epochs, whose steps are not known here, whether it has them from the first to the last.
bool same_rates(const RunConfig& before, const RunConfig& now, std::int64_t step) {
  const LrSchedule a = schedule_of(before), b = schedule_of(now);
  const bool same_end = a.decay_steps == b.decay_steps && a.cooldown_steps == b.cooldown_steps;
  if (a.kind == b.kind && (same_end || !a.ends())) return true;
  if (counts_epochs(before) || counts_epochs(now)) return false;
  for (std::int64_t t = 0; t < step; ++t)
    if (a.at(t) != b.at(t)) return false;
  return step > 0;
}

/// Whether the steps depend on the share of the training that is done, beside the learning rate.
bool depends_on_length(const RunConfig& run) {
  const MohConfig* moh = run.family->moh();
  return moh != nullptr && (moh->learn_shared_until > 0 || moh->top_k_anneal_until > 0);
}

bool is_harmless(const config::FieldProperties& key, const RunConfig& before, const RunConfig& now,
                 std::int64_t step) {
  if (key.has(config::FieldProperty::kEndsDecay))
    return same_rates(before, now, step) && !depends_on_length(now);
  return key.has(config::FieldProperty::kHarmlessOnResume);
}

const std::string* contents_of(const DataContents& data, std::string_view key) {
  const auto found = std::ranges::find(data, key, &DataContents::value_type::first);
  return found == data.end() ? nullptr : &found->second;
}

/// A text about the difference of the data of key `key`; "" if there is none.
std::string difference_of(std::string_view key, const DataContents& before, const DataContents& now) {
  const std::string *was = contents_of(before, key), *is = contents_of(now, key);
  if (was != nullptr && is != nullptr && *was == *is) return "";
  return std::string(key) + ": " + (was == nullptr ? "none" : *was) + " -> " + (is == nullptr ? "none" : *is);
}

std::string text_of_change(const ConfigChange& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? "not given" : value; };
  return change.key + ": " + shown(change.before) + " -> " + shown(change.now);
}

/// Logs a change of what the steps compute that is let pass.
void report(const std::string& change, OnChange on_change) {
  if (on_change == OnChange::kNote) return log_info("branch: " + change);
  log_warning("resume: " + change + ": results differ from those of the run that was interrupted");
}

}  // namespace

std::vector<ConfigChange> config_changes(RunConfig before, RunConfig now, std::int64_t step) {
  if (before.task != now.task) return {{"task", before.task, now.task}};
  std::vector<ConfigChange> changes;
  const auto all = config::differences(config::describe(before, {}), config::describe(now, {}));
  for (const config::Difference& d : all)
    changes.push_back({d.key, d.expected, d.found, is_harmless(d.properties, before, now, step)});
  return changes;
}

void review_config_changes(const RunConfig& before, const RunConfig& now, OnChange on_change,
                           const DataContents& data, std::int64_t step) {
  std::string refused;
  const auto changes = config_changes(with_absolute_paths(before), with_absolute_paths(now), step);
  for (const ConfigChange& change : changes) {
    if (change.harmless || contents_of(data, change.key)) {
      log_info((on_change == OnChange::kNote ? "branch: " : "resume: ") + text_of_change(change));
    } else if (on_change != OnChange::kRefuse) {
      report(text_of_change(change), on_change);
    } else {
      refused += "\n  " + text_of_change(change);
      if (change.key == "train.steps") {
        refused += " (the end of the decay; schedule.decay_steps=" + change.before + " keeps it)";
      }
    }
  }
  if (refused.empty()) return;
  throw ConfigError(
      "resume: the configuration changes what the steps compute:" + refused +
      "\nrestore these values, pass --allow-changes to resume anyway, or start a new run in another "
      "output.dir");
}

void review_data_changes(const DataContents& before, const DataContents& now, OnChange on_change) {
  std::vector<std::string_view> keys;
  for (const DataContents* data : {&before, &now}) {
    for (const auto& [key, contents] : *data) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  std::string refused;
  for (const std::string_view key : keys) {
    const std::string difference = difference_of(key, before, now);
    if (difference.empty()) continue;
    if (on_change != OnChange::kRefuse)
      report(difference, on_change);
    else
      refused += "\n  " + difference;
  }
  if (refused.empty()) return;
  throw DataError(
      "resume: the data are not those that the checkpoint was trained on:" + refused +
      "\nrestore these files, pass --allow-changes to resume anyway, or start a new run in another "
      "output.dir");
}

}  // namespace moh
