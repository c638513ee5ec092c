#pragma once

#include "train/tools/plan/dry_step.h"

namespace moh {

/// What a step of training takes from one device.
struct MemoryPlan {
  MemoryStats stats;  ///< `peak_bytes` by purpose and in all, as `moh bench step` measures them
  std::array<std::int64_t, kNumMemoryPurposes> at_peak{};  ///< what the total's peak is made of
  std::int64_t evaluation_bytes = 0;  ///< the total's peak while held-out data is evaluated, gradients kept

  /// What a device has to have.
  std::int64_t needed_bytes() const;
};

/// The memory of a dry run of the configured run: nothing is computed and no memory of that size is taken, so
/// models of any size can be planned, for a GPU also without one. What routers select is not known
/// beforehand; it is taken as balanced.
///
/// In: parameters; gradients, float32; the two moments of AdamW, and masters of bfloat16 parameters, float32;
/// activations; workspace of kernels for num_threads() threads and this machine's instruction set; batches.
/// Not in: the program and its libraries; what an allocator loses between blocks; on a GPU the context, small
/// tables of kernels and cuDNN's workspace. Throws as dry_step.
MemoryPlan plan_memory(const RunConfig& config, const MakeTask& make_task);

}  // namespace moh
