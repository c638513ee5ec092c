#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "models/layers/head_routing.h"
#include "ops/attention/attention_kernels.h"
#include "train/plan/planned_graph.h"

namespace moh {

/// Lists of pairs (ops/attention/head_lists.h), and of how many there are in each on average at most.
struct PlannedLists {
  PlannedTensor rows, offsets;
  std::int64_t num_rows = 0;
  std::int64_t longest = 0;  ///< rows of the longest list

  bool defined() const { return rows.defined(); }
};

/// What route_heads returns.
struct PlannedRouting {
  PlannedVariable gates, balance;
  PlannedTensor selected, probabilities, top, load;
};

/// What the ops of a language model keep, make and need for a moment, op by op. Sizes are those of the ops in
/// ops/; B sequences of T tokens are N = B T rows. Per op: outputs; what its closure keeps (beyond its
/// inputs, which the graph keeps); what the backward pass makes.
///
///   embedding       y [N, D]                       | ids          | table's gradient [V, D]
///   linear          y [N, O]                       | -            | dx [N, I], dw [O, I] float32
///   linears         all y                          | -            | dx [N, I] float32, then the input's
///   dtype rms_norm        y [N, D]                       | r [N]        | dx, dw add_rms_norm    sum, y [N,
///   D]                  | r [N]        | dx, for both addends reshape         a view | -            | a view
///   rope            y as x                         | -            | dx
///   attention       out [N, H d]                   | lse [rows]   | dq, dk, dv, dgates [N, H]
///   swiglu          y [N, F]                       | -            | dgate, dup
///   add, dropout    y                              | -            | the gradient itself; a masked copy
///   route_heads     gates [N, H] float32, balance  | softmaxes, Top-K, load | gradients of the logits
///   query_norm      logits [N, E]                  | norms [N, E], [N]      | dq
///   project_*       as the linear maps; lists      | -            | dx or dheads, dw float32
///   cross_entropy   the loss                       | 2 [N]        | d logits, in the memory of the logits
///
/// On the CPU products of bfloat16 matrices widen what they read and write to float32 for a moment
/// (workspace); other scratch is that of the kernels themselves. On a GPU cuBLASLt has a workspace of its
/// own; that of cuDNN, which it chooses itself, is not known here and not counted.
class PlannedOps {
 public:
  explicit PlannedOps(MemoryLedger& ledger) : ledger_(ledger) {}

  MemoryLedger& ledger() const { return ledger_; }
  bool on_cpu() const { return ledger_.device() == kCpu; }
  PlannedTensor tensor(std::int64_t numel, DType dtype) const { return {ledger_, numel, dtype}; }
  PlannedVariable parameter(std::int64_t numel, DType dtype) const;

  PlannedVariable embedding(const PlannedVariable& table, std::int64_t vocab, std::int64_t tokens) const;
  PlannedVariable linear(const PlannedVariable& x, const PlannedVariable& w, std::int64_t rows) const;
  std::vector<PlannedVariable> linears(const PlannedVariable& x, const std::vector<PlannedVariable>& weights,
                                       std::int64_t rows, std::optional<DType> out = std::nullopt) const;
  PlannedVariable rms_norm(const PlannedVariable& x, const PlannedVariable& w) const;
  std::pair<PlannedVariable, PlannedVariable> add_rms_norm(const PlannedVariable& x,
                                                           const PlannedVariable& branch,
                                                           const PlannedVariable& w) const;
  PlannedVariable reshape(const PlannedVariable& x) const;
  PlannedVariable swiglu(const PlannedVariable& gate, const PlannedVariable& up) const;
  PlannedVariable add(const PlannedVariable& a, const PlannedVariable& b) const;
  /// rope and dropout: an output and a gradient as large as x, and nothing kept.
  PlannedVariable map(const PlannedVariable& x) const;
  /// `gates` and `lists` undefined: all pairs.
  PlannedVariable attention(const PlannedVariable& q, const PlannedVariable& k, const PlannedVariable& v,
                            const PlannedVariable& gates, const PlannedLists& lists,
                            const AttentionShape& shape) const;
  PlannedRouting route_heads(const PlannedVariable& shared, const PlannedVariable& routed,
                             const PlannedVariable& type, std::int64_t tokens,
                             const RouterOptions& options) const;
  PlannedVariable query_norm(const PlannedVariable& q, std::int64_t tokens, std::int64_t routed) const;
  PlannedVariable project_to_heads(const PlannedVariable& x, const PlannedVariable& w,
                                   const PlannedLists& lists, const AttentionShape& shape) const;
  PlannedVariable project_from_heads(const PlannedVariable& heads, const PlannedVariable& w,
                                     const PlannedLists& lists, const AttentionShape& shape) const;
  PlannedVariable cross_entropy(const PlannedVariable& logits, const PlannedTensor& targets,
                                std::int64_t tokens) const;

  /// Takes and gives back memory inside an op.
  void workspace(std::int64_t bytes) const;

 private:
  /// c [m, n] = a [m, k] b [k, n] into memory that is there (ops/linalg/matmul.h).
  struct Product {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b;
    DType a, b, c;
  };
  void product(const Product& p) const;
  void cpu_product(const Product& p) const;
  PlannedTensor weight_gradient(const PlannedVariable& w, const PlannedTensor& dy, const PlannedTensor& x,
                                std::int64_t rows) const;
  void sum_over_rows(std::int64_t rows, std::int64_t width) const;
  std::pair<PlannedTensor, PlannedTensor> norm_gradients(const PlannedTensor& x,
                                                         const PlannedTensor& w) const;
  void attention_workspace(const AttentionShape& shape, const PlannedLists& lists, DType dtype,
                           bool backward) const;
  enum class Projection : std::uint8_t { kToHeads, kFromHeads, kWeightGradient };
  void projection_workspace(Projection part, const AttentionShape& shape, std::int64_t width,
                            DType dtype) const;

  MemoryLedger& ledger_;
};

}  // namespace moh
