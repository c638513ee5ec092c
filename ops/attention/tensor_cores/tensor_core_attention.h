#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention in bfloat16 on tensor cores (compute capability 8.0 and later), forward and backward, dense and
/// for lists: the rows of a tile are gathered from where the projection left them, keys and values are read
/// in place. FlashAttention-2's order of work (Dao 2023, arXiv 2307.08691), with float32 sums in an order
/// that does not depend on the run. `num_rows` as in CudaAttention.
struct TensorCoreAttention {
  /// Whether there are kernels for heads of this width.
  static bool takes(std::int64_t head_dim);

  /// The rows of the lists; other pairs stay as they are. args.lse may be null.
  static void forward(const AttentionForward<bfloat16>& args, std::int64_t num_rows);

  /// The same for few queries and many keys, as in generation: many blocks share the keys of a list, and
  /// those of lists without rows are not read.
  static void decode(const AttentionForward<bfloat16>& args, std::int64_t num_rows);

  /// dq and dgates of the rows of the lists; dk and dv of all keys. The gradient of a gate is summed up from
  /// the scores, so that a gate may be zero. args.out is read; num_groups and dq_partials are not used.
  static void backward(const AttentionBackward<bfloat16>& args, std::int64_t num_rows);

  /// Its two parts: the rows' kernel leaves delta = <dout, out> per row for the keys'.
  static void backward_rows(const AttentionBackward<bfloat16>& args, std::int64_t num_rows, float* deltas);
  static void backward_keys(const AttentionBackward<bfloat16>& args, const float* deltas);
};

}  // namespace moh
