#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "train/base/measure/pass_timer.h"
#include "train/base/measure/row.h"

namespace moh {

/// Options that `bench attention` and `bench module` share. Every combination of tokens, causal and active is
/// measured.
struct AttentionCases {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;
  std::vector<std::int64_t> tokens = {256, 1024, 2048};
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 64;
  /// Also measure each share inside KV groups (routing: within_groups), where it is the same number of heads
  /// of each.
  bool within_groups = false;
  /// Also measure each share with keys and values of the selected heads alone (routed: queries_keys_values).
  bool routed_keys = false;
  std::vector<bool> causal = {false};
  std::vector<double> active = {1.0, 0.75, 0.5};  ///< share of the heads that each token selects, in (0, 1]
  int warmups = 2;                                ///< passes of each case before the measured ones
  int repeats = 15;  ///< measured passes of each case, interleaved with those of the others
  std::uint64_t seed = 1;

  /// max(1, round(share * heads)).
  std::int64_t kept_heads(double share) const;
  /// Whether within_groups measures so many heads.
  bool measures_within_groups(std::int64_t kept) const { return within_groups && kept % kv_heads == 0; }
};

/// Pairs of a query and a key with routed keys, in those that one head has over all tokens: `shared` heads
/// have as many, and `kept` of `routed` heads, selected equally often, kept^2 / routed together.
double pairs_of_routed_keys(std::int64_t shared, std::int64_t kept, std::int64_t routed);

/// Checks the options above, sets kv_heads if it is 0; throws ValueError naming `bench` and the option.
void check(AttentionCases& cases, std::string_view bench);

/// One form of attention in a comparison.
struct AttentionCandidate {
  bool dense = false;                 ///< all heads, and neither lists nor a router
  bool any_order = false;             ///< with gradients that need not have the same bits in every run
  double active = 1;                  ///< share of the heads
  bool within_groups = false;         ///< as many heads of each KV group, by dense attention
  bool routed_keys = false;           ///< each head over the tokens that selected it
  std::vector<Variable> leaves;       ///< leaves that get gradients
  std::function<Variable()> forward;  ///< the timed forward pass; the backward pass starts from its result
  PassTimes times;
  std::int64_t peak_bytes =
      0;  ///< tensors of a forward and backward pass at their most, gradients of leaves included
};

/// The candidates for one number of tokens and one mask. The first is dense attention, which ratios refer to
/// even if it is not shown.
struct AttentionComparison {
  std::int64_t tokens = 0;
  bool causal = false;
  bool show_dense = false;
  Tensor dout;  ///< gradient of the output, for all candidates
  std::vector<AttentionCandidate> candidates;
  std::int64_t window = 0;  ///< keys that a causal query sees; 0: no window

  /// Average number of keys that a query attends to.
  double visible_keys() const;
};

/// For each number of tokens and mask: times the candidates that `compare` returns, then passes a row of
/// each, made by `describe`, to `on_row`. The candidates take turns, so that disturbances affect all alike.
void run_attention_cases(
    const AttentionCases& cases,
    const std::function<AttentionComparison(std::int64_t tokens, bool causal)>& compare,
    const std::function<Row(const AttentionComparison&, const AttentionCandidate&)>& describe,
    const std::function<void(const Row&)>& on_row);

// Fields that the rows of both benchmarks share. Times are medians over the repeats, in milliseconds; a
// spread is (90th - 10th percentile) / median. A ratio is time / time of dense attention: the median over the
// repeats, in each of which both are timed one right after the other.

/// A row with the fields `op`, `device`, `dtype`, `batch` and `tokens`.
Row first_members(const AttentionCases& cases, std::string_view op, const AttentionComparison& comparison);
/// Adds `causal`, and `window` where there is one.
void add_mask(Row& row, const AttentionComparison& comparison);
/// Adds `forward_ms` and `forward_backward_ms`.
void add_medians(Row& row, const PassTimes& times);
/// Adds `spread` (of forward and backward pass together), `forward_ratio` and `forward_backward_ratio`.
void add_ratios(Row& row, const PassTimes& times, const AttentionComparison& comparison);

}  // namespace moh
