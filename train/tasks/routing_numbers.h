#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/head_routing.h"
#include "train/tasks/task.h"

namespace moh {

/// The mean of the load-balance losses of the routed layers; undefined where there are none.
Variable mean_balance_loss(std::span<const LayerRouting> routing);

/// What a task of any family reports of routed heads: it packs a micro-batch's numbers, which stay on the
/// device, and reads them back on the host. One object serves a task whose layers do not change.
class RoutingNumbers {
 public:
  /// Appends the numbers of a micro-batch: `balance`, which may be undefined, and the load of each layer.
  void pack(const Variable& balance, std::span<const LayerRouting> routing, std::vector<Tensor>& numbers);
  /// Adds "balance_loss", "activated_heads" (the share of heads whose attention was computed) and "head_load"
  /// of a step to `result`, as means over its `count` micro-batches; `numbers` are theirs, one after another.
  /// Nothing for a dense model.
  void unpack(std::int64_t count, std::span<const double> numbers, StepStatistics& result) const;

 private:
  bool balanced_ = false;
  std::vector<std::size_t> load_widths_;  // by layer; 0 where nothing is routed
  double computed_share_ = 1;             // of all heads
};

}  // namespace moh
