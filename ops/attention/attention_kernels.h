#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/dropout/dropout_mask.h"

namespace moh {

/// A row of a head list: the token's position in its sequence | local query head << kListPositionBits. The
/// local head is the query head's number within its KV group.
inline constexpr int kListPositionBits = 20;

/// Sizes and mask of attention. Query t has position p = query_offset + t, key s position s. With `causal` a
/// query attends to the keys up to its own position, and of these to the last `window` and to those from
/// document_starts[t] on, where the mask has them; else to all keys, or with document_ends to those from
/// document_starts[t] to document_ends[t] - 1. heads is a multiple of kv_heads.
struct AttentionShape {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
  std::int64_t query_offset = 0;
  double scale = 1.0;       ///< of q k^T
  std::int64_t window = 0;  ///< keys p - window + 1 ... p; 0: no window
  /// [B, T], ascending in t, or none: the first key of the query's document.
  const std::int32_t* document_starts = nullptr;
  /// [B, T], ascending in t, or none: the key after the last of the query's document. Not with `causal`.
  const std::int32_t* document_ends = nullptr;
  /// [batch + 1], or none: the sequences have different lengths and lie one after the other, as in
  /// AttentionOptions::sequences. Then sequence b has the tokens from offsets[b] to offsets[b + 1],
  /// `queries` and `keys` are the length of the longest, document_starts counts from the first token of all,
  /// and views have a batch_stride of 0. CPU kernels only.
  const std::int64_t* offsets = nullptr;
  DropoutMask dropout = {};  ///< of the weights: m, 0 or a factor; without dropout 1 everywhere
};

/// A strided view [B, T, H, d] whose last axis is contiguous, strides in elements: a tensor, or the queries,
/// keys or values inside a packed projection.
template <class T>
struct HeadView {
  T* data = nullptr;
  std::int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
};

/// The (token, query head) pairs to compute, one list per (batch, KV head); see HeadLists. rows == nullptr:
/// all pairs, without a list in memory.
struct RowLists {
  const std::int32_t* rows = nullptr;
  const std::int64_t* offsets = nullptr;
};

/// A task over rows (queries) [begin, end) of a list.
struct RowTask {
  std::int64_t list = 0, begin = 0, end = 0;
};
/// A task over keys and values [begin, end) of a list. `group` numbers the key ranges of the list from 0.
struct KeyTask {
  std::int64_t list = 0, begin = 0, end = 0, group = 0;
};

template <class T>
struct AttentionForward {
  AttentionShape shape;
  RowLists lists;
  HeadView<const T> q, k, v;
  const Acc<T>* gates = nullptr;  ///< [B, T, H], or none: all 1
  HeadView<T> out;
  Acc<T>* lse = nullptr;  ///< per row in list order: log2 of the sum of exponentials (log-sum-exp); or none
};

template <class T>
struct AttentionBackward {
  AttentionShape shape;
  RowLists lists;
  HeadView<const T> q, k, v, out, dout;
  const Acc<T>* gates = nullptr;
  const Acc<T>* lse = nullptr;
  HeadView<T> dq, dk, dv;
  Acc<T>* dgates = nullptr;  ///< [B, T, H], or none
  /// Keys of a group, the last may have fewer: dq is the sum of the contributions of groups, in their order.
  std::int64_t group_keys = 0;
  /// [groups, rows of all lists, padded_head_dim], for tasks of a group each; none for tasks of whole lists.
  Acc<T>* dq_partials = nullptr;
};

/// The CPU kernels of attention: each call computes one task, in scratch memory of the caller. All scratch
/// sizes (bytes) are for the largest task; scratch is aligned to 64 bytes.
template <class Backend, class T>
struct AttentionKernels {
  using Sum = Acc<T>;

  /// Length of a row of dq_partials.
  static std::int64_t padded_head_dim(std::int64_t head_dim);

  /// out = gate * (m softmax(scale q k^T)) v for the task's rows, and zeros for the unselected pairs between
  /// them in (token, head) order; the first task of a list also zeroes the pairs before its rows, the last
  /// task those after. A row's bits do not depend on how the list is divided into tasks.
  static std::size_t forward_scratch_bytes(const AttentionShape& shape);
  static void forward(const AttentionForward<T>& args, const RowTask& task, std::byte* scratch);

  /// dk and dv of the task's keys, and their part of dq: with P the probabilities, m the dropout mask, y the
  /// gated output,
  ///   delta = <dout, y>   dP = m g dout v^T   dS = P (dP - delta)
  ///   dq += dS k   dk += dS^T q   dv += (m P)^T g dout
  /// The task of group 0 writes dgates = delta / gate, and 0 where the gate is tiny (is_tiny_gate). A task of
  /// a whole list completes dq, one of a group leaves its contribution in dq_partials: the same bits.
  static std::size_t backward_scratch_bytes(const AttentionShape& shape, std::int64_t longest_list,
                                            bool sums_groups);
  static void backward_keys(const AttentionBackward<T>& args, const KeyTask& task, std::byte* scratch);
  /// dq of the task's rows: the sum of dq_partials; zeros as in forward.
  static void backward_queries(const AttentionBackward<T>& args, const RowTask& task);
};

}  // namespace moh
