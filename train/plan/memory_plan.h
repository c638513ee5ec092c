#pragma once

#include "core/allocator.h"
#include "train/config/run_config.h"
#include "train/plan/planned_tensor.h"

namespace moh {

/// What a step of training takes from one device.
struct MemoryPlan {
  MemoryStats stats;  ///< `peak_bytes` by purpose and in all, as `moh bench step` measures them
  MemoryLedger::ByPurpose at_peak{};  ///< what the total's peak is made of
  std::int64_t evaluation_bytes = 0;  ///< the total's peak while validation text is evaluated, gradients kept

  /// What a device has to have.
  std::int64_t needed_bytes() const;
};

/// Follows one training step through the ops that it consists of (planned_ops.h): forward pass, logits and
/// loss, backward pass, update; with the optimiser's state and the batches that are read ahead. Nothing is
/// computed and no memory of that size is taken, so models of any size can be planned, for a GPU also without
/// one. What routers select is not known beforehand; it is taken as balanced.
///
/// In: parameters; gradients, float32; the two moments of AdamW, and masters of bfloat16 parameters, float32;
/// activations; scratch of kernels for num_threads() threads and this machine's instruction set; batches. Not
/// in: the program and its libraries; what an allocator loses between blocks; on a GPU the context and
/// cuDNN's workspace. Throws ValueError for a model that does not fit together.
MemoryPlan plan_memory(const RunConfig& config);

}  // namespace moh
