#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "train/bench/attention_cases.h"

namespace moh {

/// What `moh bench attention` measures.
struct AttentionBenchOptions : AttentionCases {
  AttentionBenchOptions() {
    tokens = {256, 1024, 2048, 4096};
    heads = 16;
  }
  std::int64_t kv_heads = 16;
  bool listed = false;  ///< one more line with all heads, in lists: what the lists themselves cost
};

/// One line of results. Times are medians over the repeats. A ratio compares with dense attention (all heads,
/// no lists) of the same run: each repeat times both right after each other, and the median of those ratios
/// counts.
struct AttentionBenchRecord {
  std::string op;  ///< "attention" (dense) or "head_sparse_attention" (by lists)
  std::string device, dtype;
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
  double active = 1.0;       ///< as asked for
  double pairs_share = 1.0;  ///< query-key pairs that are computed, as a share of dense attention's
  double forward_ms = 0.0, forward_backward_ms = 0.0;
  double spread = 0.0;  ///< (90th - 10th percentile) / median of forward_backward_ms
  double forward_ratio = 1.0, forward_backward_ratio = 1.0;
  double forward_gflops = 0.0;           ///< 4 d floating-point operations per computed pair
  double forward_backward_gflops = 0.0;  ///< 14 d: recomputing scores in the backward pass counts
};

/// Runs the measurements, handing each record over as soon as it is known. Each token keeps round(active *
/// heads) heads, at least one: an eighth of all heads is shared by all tokens (as far as that number goes),
/// the others are drawn at random. Throws ValueError naming the option that is out of range.
void run_attention_bench(const AttentionBenchOptions& options,
                         const std::function<void(const AttentionBenchRecord&)>& on_record);

/// One JSON object with all fields, and a newline.
void write_json_line(std::ostream& out, const AttentionBenchRecord& record);

/// The head of a table for people, and one line of it.
void write_table_head(std::ostream& out);
void write_table_line(std::ostream& out, const AttentionBenchRecord& record);

}  // namespace moh
