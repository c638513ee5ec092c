#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "train/bench/pass_timer.h"
#include "train/bench/row.h"

namespace moh {

/// What the benchmarks of attention and of its layer have in common: every combination of tokens, causal and
/// active is measured.
struct AttentionCases {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;
  std::vector<std::int64_t> tokens = {256, 1024, 2048};
  std::int64_t heads = 12;
  std::int64_t head_dim = 64;
  std::vector<bool> causal = {false};
  std::vector<double> active = {1.0, 0.75, 0.5};  ///< share of the heads that each token keeps, in (0, 1]
  int warmups = 2;                                ///< passes of each case that are not counted
  int repeats = 15;  ///< counted passes of each case, interleaved with the others
  std::uint64_t seed = 1;

  /// active * heads as a whole number, at least 1.
  std::int64_t kept_heads(double share) const;
};

/// Checks the options above; throws ValueError naming `bench` and the option.
void check(const AttentionCases& cases, std::string_view bench);

/// What is measured at one length under one mask with some of the heads.
struct AttentionCandidate {
  bool dense = false;                 ///< all heads, and neither lists nor a router
  double active = 1;                  ///< share of the heads
  std::vector<Variable> leaves;       ///< that a backward pass reaches
  std::function<Variable()> forward;  ///< what is timed, with the backward pass from its result
  PassTimes times;
};

/// A length, a mask, and what is compared there: dense attention first, whether it is shown or not.
struct AttentionComparison {
  std::int64_t tokens = 0;
  bool causal = false;
  bool show_dense = false;
  Tensor dout;  ///< the gradient of all outputs
  std::vector<AttentionCandidate> candidates;

  /// Keys that a query sees on average.
  double visible_keys() const;
};

/// Takes the times of what `compare` makes for each length and mask, and hands over the rows that `describe`
/// makes of them as soon as they are known. The candidates of a comparison take turns, so that what else the
/// machine does hits all alike.
void run_attention_cases(
    const AttentionCases& cases,
    const std::function<AttentionComparison(std::int64_t tokens, bool causal)>& compare,
    const std::function<Row(const AttentionComparison&, const AttentionCandidate&)>& describe,
    const std::function<void(const Row&)>& on_row);

// What their rows have in common. Times are medians over the repeats, in milliseconds; a spread is (90th -
// 10th percentile) / median. A ratio compares with dense attention: each repeat times both right after each
// other, and the median of those ratios counts.

/// A row with its first members, from `op` to `tokens`.
Row first_members(const AttentionCases& cases, std::string_view op, const AttentionComparison& comparison);
/// `causal`.
void add_mask(Row& row, const AttentionComparison& comparison);
/// `forward_ms` and `forward_backward_ms`.
void add_medians(Row& row, const PassTimes& times);
/// `spread` of the whole pass, `forward_ratio`, `forward_backward_ratio`.
void add_ratios(Row& row, const PassTimes& times, const AttentionComparison& comparison);

}  // namespace moh
