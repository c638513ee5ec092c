#pragma once

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention of a few query tokens against keys and values in a cache (as Flash-Decoding). Keys are split
/// into parts that run in parallel; each part stores, per row, its largest score, the sum of its exponentials
/// relative to it, and its output before division. merge() combines the parts in their order.
template <class T>
struct AttentionDecode {
  AttentionShape shape;
  RowLists lists;
  HeadView<const T> q, k, v;
  const Acc<T>* gates = nullptr;  ///< [B, T, H], or none: all 1
  HeadView<T> out;
  std::int64_t num_parts = 1;
  Acc<T>* part_out = nullptr;  ///< [num_parts, rows of all lists, padded head_dim]
  Acc<T>* part_top = nullptr;  ///< [num_parts, rows of all lists]
  Acc<T>* part_sum = nullptr;  ///< likewise
};

template <class Backend, class T>
struct AttentionDecodeKernels {
  static std::int64_t padded_head_dim(std::int64_t head_dim);
  static std::size_t part_scratch_bytes(const AttentionShape& shape, std::int64_t longest_list);
  /// The task's keys, read in place and once; task.group is the number of the part.
  static void part(const AttentionDecode<T>& args, const KeyTask& task, std::byte* scratch);
  /// out of a list, with zeros for unselected pairs.
  static void merge(const AttentionDecode<T>& args, std::int64_t list);
};

}  // namespace moh
