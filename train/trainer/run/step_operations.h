#pragma once

#include <cstdint>

#include "core/function_ref.h"

namespace moh {

/// Model FLOPs of a process's steps, as `moh plan` counts them and as MFU has them: the GEMMs and the
/// attention that mask and router leave, forward and backward, 2 per multiply-add; nothing that is computed a
/// second time.
///
/// They are counted as one step is enqueued, kernel by kernel, and scaled by the items of others. Where
/// sequences have masks of their own (documents, padding) that step stands for all.
class StepOperations {
 public:
  /// Runs `compute`, a step of `items`, and counts its operations unless they are known, or this thread is
  /// profiled. A step that was `settled` (is_settled()) stands for those after it. Returns what `compute`
  /// returns: whether the step is complete, without which nothing is known.
  bool count(std::int64_t items, bool settled, FunctionRef<bool()> compute);
  /// From now on steps compute something else.
  void forget() { of_item_ = 0; }
  /// Operations of a step; 0 where they are not known.
  double of(std::int64_t items) const { return of_item_ * static_cast<double>(items); }

 private:
  double of_item_ = 0;
  bool settled_ = false;
};

}  // namespace moh
