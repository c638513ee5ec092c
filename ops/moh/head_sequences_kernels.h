#pragma once

#include "core/dtype.h"
#include "ops/attention/list_walk.h"

namespace moh {

/// Operands of head_sequences(): the lists as those of attention of `shape`, and outputs of `rows` rows.
struct HeadSequenceArgs {
  AttentionShape shape;
  RowLists lists;
  const std::int32_t *document_starts, *windows, *first_positions;  ///< or null
  bool reset_positions, positions_in_head;
  std::int64_t rows;
  std::int64_t* pairs;
  std::int32_t *positions, *starts;
};

struct CudaHeadSequences {
  /// In device memory.
  static void fill(const HeadSequenceArgs& args);
};

/// R rows of width d between x [pairs, d] and y [R, d]; a row of pair -1 has none.
struct PairRows {
  std::int64_t rows, head_dim;
  const std::int64_t* pairs;  ///< [R]
};

/// Kernels of gather_pairs and scatter_pairs: gather overwrites y; the others write the pairs' rows alone.
/// gates and d_gates are indexed by pair; null gates are 1.
template <class Backend, class T>
struct PairRowKernels {
  static void gather(const T* x, T* y, const PairRows& of);
  static void scatter(const T* y, const Acc<T>* gates, T* x, const PairRows& of);
  /// dy is overwritten.
  static void scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy, Acc<T>* d_gates,
                               const PairRows& of);
};

namespace {

/// Fills row r of the outputs.
constexpr void fill_head_sequence_row(const HeadSequenceArgs& args, std::int64_t r) {
  if (r >= total_rows(args.shape, args.lists)) {
    args.pairs[r] = -1;
    args.positions[r] = 0;
    args.starts[r] = static_cast<std::int32_t>(r);
    return;
  }
  const List list = list_of_row(args.shape, args.lists, r);
  const std::int64_t row = r - list.first, token = pair_at(list, row).token;
  std::int64_t document = 0, first = 0;  // its first token, and its first row in the list
  if (args.document_starts != nullptr) {
    document = args.document_starts[list.batch * args.shape.queries + token];
    for (std::int64_t end = row; first < end;) {
      const std::int64_t middle = (first + end) / 2;
      if (pair_at(list, middle).token < document) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
  }
  std::int64_t position = args.positions_in_head ? row : token;
  if (args.reset_positions) position -= args.positions_in_head ? first : document;
  if (args.first_positions != nullptr)
    position += args.first_positions[list.batch * args.shape.heads + list.kv_head];
  const std::int64_t window = args.windows != nullptr ? args.windows[list.kv_head] : 0;
  if (window > 0 && first < row + 1 - window) first = row + 1 - window;
  args.pairs[r] = gate_index(args.shape, list, {token, 0});
  args.positions[r] = static_cast<std::int32_t>(position);
  args.starts[r] = static_cast<std::int32_t>(list.first + first);
}

}  // namespace
}  // namespace moh
