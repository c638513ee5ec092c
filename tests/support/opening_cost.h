#pragma once

#include <string>

#include "core/function_ref.h"

namespace moh {

/// The cost of opening a file.
struct OpeningCost {
  std::string message;   ///< of the error, or "accepted"
  double megabytes = 0;  ///< growth of the peak memory
  double seconds = 0;
};

/// Runs `open` in a child process; a moh::Error is its answer.
OpeningCost cost_of_opening(FunctionRef<void()> open);

}  // namespace moh
