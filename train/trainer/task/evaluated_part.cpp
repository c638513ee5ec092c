#include "train/trainer/task/evaluated_part.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

namespace {

bool evaluates_average(const RunConfig& run) {
  return run.ema.decay > 0 && run.ema.evaluate;
}

/// Whether a user asks for a moving average, or for none.
bool mention_average(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(
      overrides, [](std::string_view each) { return each.starts_with("ema.") || each.starts_with("ema="); });
}

}  // namespace

RunConfig stored_run(const ModelLocation& checkpoint, const Families& families,
                     const std::vector<std::string>& settings) {
  static_cast<void>(StoredCheckpoint(checkpoint.weights, LoadScope::kModelOnly));
  return load_run_config(checkpoint.config.string(), settings, families.configs(), ConfigUse::kModel);
}

std::string evaluated_part(const ModelLocation& location, const Families& families,
                           const std::vector<std::string>& settings,
                           const std::vector<std::string>& overrides) {
  if (!location.is_checkpoint || !evaluates_average(stored_run(location, families, settings))) return {};
  const StoredCheckpoint checkpoint(location.weights, LoadScope::kModelOnly);
  if (!checkpoint.average().empty()) return std::string(kAveragePart);
  if (is_model_only(checkpoint) && !mention_average(overrides)) return {};
  throw ConfigError(error_message(location.weights.string(), "ema.evaluate",
                                  "false: this checkpoint has no moving average", "true",
                                  "ema.evaluate=false takes its weights"));
}

bool leaves_average_out(const ModelLocation& location, const Families& families) {
  return location.is_checkpoint && evaluates_average(stored_run(location, families)) &&
         !StoredCheckpoint(location.weights, LoadScope::kModelOnly).average().empty();
}

}  // namespace moh
