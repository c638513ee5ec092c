#pragma once

#include <cstdint>
#include <string_view>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention on a GPU. args.lists is in device memory, so the host knows only an upper bound for the number
/// of rows of all lists: `num_rows`. Without lists (rows is null), all pairs are computed.
template <class T>
struct CudaAttention {
  /// Whether cuDNN computes this call, forward and backward, according to math_mode(). Throws DeviceError
  /// when the mode requires cuDNN but cuDNN does not support the call.
  static bool is_for_cudnn(std::string_view op, const AttentionForward<T>& args);

  /// out = gate * softmax(scale q k^T) v for the rows of the lists, and zeros for all other pairs.
  static void forward(const AttentionForward<T>& args, std::int64_t num_rows);
  /// forward() for a few query tokens against many keys.
  static void decode(const AttentionForward<T>& args, std::int64_t num_rows);
  /// Computes dq, dk, dv and dgates; args.num_groups and args.dq_partials are not used, args.out only by the
  /// tensor core kernels.
  static void backward(const AttentionBackward<T>& args, std::int64_t num_rows);
};

}  // namespace moh
