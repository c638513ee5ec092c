#pragma once

#include <optional>

#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/value_gather.h"

namespace moh {

/// Parameters whose updates are divided among processes: stale after an update, until the values that the
/// other processes have made are gathered. Where nothing is divided, they never are, and nothing is done.
class ParameterGather {
 public:
  /// Gathers the optimiser's parameters; it must outlive this object.
  explicit ParameterGather(const AdamW& optimizer) : optimizer_(optimizer) {}

  /// The optimiser has updated its own elements. From now on whoever reads a parameter waits for the values
  /// of the others (ValueGather).
  void mark_stale();
  /// The values have come in another way: by the replay of a captured gather.
  void mark_current();
  /// Starts to gather, so that a forward pass runs beside it. A collective, if the parameters are stale: all
  /// processes call it, or read a parameter, before one of them reads it alone.
  void start();
  /// Waits for all values. Likewise.
  void finish();

 private:
  const AdamW& optimizer_;
  std::optional<ValueGather> gather_;  // since the last update
};

}  // namespace moh
