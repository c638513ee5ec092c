#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention in bfloat16 on tensor cores (compute capability 8.0 and later), forward and backward, dense and
/// with head lists: the rows of a tile are gathered from the projection's output, keys and values are read in
/// place. The algorithm is FlashAttention-2 (Dao 2023, arXiv 2307.08691), with float32 accumulation in a
/// deterministic order. `num_rows` as in CudaAttention.
struct TensorCoreAttention {
  /// Whether there are kernels for heads of this width.
  static bool takes(std::int64_t head_dim);

  /// Computes the rows of the lists, and zeros for other pairs. args.lse may be null.
  static void forward(const AttentionForward<bfloat16>& args, std::int64_t num_rows);

  /// forward() for few queries and many keys, as in generation: many blocks share the keys of a list, and
  /// those of lists without rows are not read.
  static void decode(const AttentionForward<bfloat16>& args, std::int64_t num_rows);

  /// dq and dgates of the rows of the lists, zeros for other pairs; dk and dv of all keys. The gradient of a
  /// gate is computed from the scores, so that a gate may be zero. args.out is read; num_groups and
  /// dq_partials are not used.
  static void backward(const AttentionBackward<bfloat16>& args, std::int64_t num_rows);

  /// The two kernels of backward: backward_rows stores delta = <dout, out> per row for backward_keys.
  static void backward_rows(const AttentionBackward<bfloat16>& args, std::int64_t num_rows, float* deltas);
  static void backward_keys(const AttentionBackward<bfloat16>& args, const float* deltas);
};

}  // namespace moh
