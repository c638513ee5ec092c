#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/profile.h"

namespace moh {

/// What one op takes of a training step, on average over the profiled steps.
struct OpTime {
  std::string op;
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
  double calls = 0;   ///< in all phases
  double gflops = 0;  ///< achieved, of matrix products; else 0

  double total_ms() const { return forward_ms + backward_ms + optimizer_ms; }
};

/// Where a training step goes, op by op.
struct StepProfile {
  double step_ms = 0;       ///< mean of the profiled steps, which are slower by what taking times costs
  std::vector<OpTime> ops;  ///< longest first

  /// What no op accounts for: waiting for data, recording and releasing the graph, memory.
  double other_ms() const;
};

/// `entries` were collected over `steps` steps that took `seconds` together.
StepProfile summarize_profile(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds);

}  // namespace moh
