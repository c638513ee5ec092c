#pragma once

#include <cstdint>
#include <functional>

#include "train/apps/bench/attention_cases.h"

namespace moh {

/// Options of `moh bench attention`.
struct AttentionBenchOptions : AttentionCases {
  AttentionBenchOptions() {
    tokens = {256, 1024, 2048, 4096};
    heads = 16;
  }
  std::int64_t window = 0;  ///< keys that a causal query sees; 0: no window
  bool listed = false;      ///< also measure head lists that contain all heads: the overhead of lists
  /// If not 0, aggregated attention of TransNeXt, each token against a window of 3 x 3 and so many pooled
  /// tokens.
  std::int64_t pooled = 0;
};

/// Runs the benchmark and passes each row to `on_row` as soon as it is measured. Each token selects
/// max(1, round(active * heads)) heads: heads / 8 shared ones (or fewer, if it selects fewer), and others at
/// random; within_groups the same of each KV group; routed_keys needs a causal mask. Throws ValueError naming
/// the option that is out of range.
///
/// On a GPU dense attention is measured a second time, with the gradients of
/// MathMode::deterministic_attention false.
///
/// Fields of a row (see attention_cases.h for the times): `op`, "attention" (dense),
/// "attention_in_any_order" (the second time), "head_sparse_attention" (head lists),
/// "attention_within_groups" (dense attention over slots, their gathering and scattering included) or
/// "aggregated_attention" (dense or by lists); `active`, the option's value; `pairs_share`, the computed
/// (query, key) pairs as a share of those of dense attention; `forward_megaflops`, 4 d floating-point
/// operations per computed pair; `peak_bytes`, tensors that a forward and backward pass makes, at their most,
/// lists and gradients included. Rates count the same operations, and 14 d including the backward pass, with
/// its recomputation of scores.
void run_attention_bench(const AttentionBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
