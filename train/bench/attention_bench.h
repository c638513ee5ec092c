#pragma once

#include <cstdint>
#include <functional>

#include "train/bench/attention_cases.h"

namespace moh {

/// What `moh bench attention` measures.
struct AttentionBenchOptions : AttentionCases {
  AttentionBenchOptions() {
    tokens = {256, 1024, 2048, 4096};
    heads = 16;
  }
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  bool listed = false;        ///< one more line with all heads, in lists: what the lists themselves cost
};

/// Runs the measurements, handing each row over as soon as it is known. Each token keeps round(active *
/// heads) heads, at least one: an eighth of all heads is shared by all tokens (as far as that number goes),
/// the others are drawn at random. Throws ValueError naming the option that is out of range.
///
/// Of a row (attention_cases.h has the times): `op` is "attention" (dense) or "head_sparse_attention" (by
/// lists); `active` the share as asked for; `pairs_share` the query-key pairs that are computed, as a share
/// of dense attention's. Rates count 4 d floating-point operations per computed pair, with the backward pass
/// 14 d: recomputing scores counts.
void run_attention_bench(const AttentionBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
