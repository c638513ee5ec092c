#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "train/trainer/task/task.h"

namespace moh {

/// Observes the routers of a model in the course of a training.
class RouterWatch {
 public:
  /// Selections that a head has to get in a step, if loads were even, before a load near 0 means something.
  static constexpr double kEnoughSelections = 100;

  explicit RouterWatch(Task& task) : task_(task) {}

  /// Whether a layer's router refuses heads, so that there is something to watch.
  bool has_routers() const;

  /// The layers in which, since the last call, half or more of the heads that can be dead, E - K, have died
  /// ("dead_heads" of a step's statistics). A layer is named again if it has recovered in between.
  std::vector<std::int64_t> newly_collapsed(const StepStatistics& statistics);

  /// Runs the task's first batch, and compares what its first kTokens tokens select with `before`, which it
  /// replaces: of each layer the selected (token, head) pairs, as bits in hexadecimal digits; "" for layers
  /// that refuse no head. Returns by layer the share of the selected routed pairs that have changed; nothing
  /// for such layers, and where `before` is of another model, or empty.
  static constexpr std::int64_t kTokens = 1024;
  std::vector<std::optional<double>> churn(std::vector<std::string>& before);

 private:
  Task& task_;
  std::set<std::int64_t> collapsed_;
};

}  // namespace moh
