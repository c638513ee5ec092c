#pragma once

#include <cstdint>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention on the device. `num_rows` is at least the number of rows of all lists, whose lengths only the
/// device knows; args.lists points to its memory, or is that of all pairs.
template <class T>
struct CudaAttention {
  /// out = gate * softmax(scale q k^T) v for the rows of the lists, and zeros for all other pairs.
  static void forward(const AttentionForward<T>& args, std::int64_t num_rows);
  /// The same for a few query tokens against many keys.
  static void decode(const AttentionForward<T>& args, std::int64_t num_rows);
  /// dq, dk, dv and dgates; args.out, num_groups and dq_partials are not used.
  static void backward(const AttentionBackward<T>& args, std::int64_t num_rows);
};

}  // namespace moh
