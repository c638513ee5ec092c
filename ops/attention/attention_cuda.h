#pragma once

#include <cstdint>
#include <string_view>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Which passes of a call cuDNN computes.
struct CudnnPasses {
  bool forward = false, backward = false;
};

/// Attention on a GPU. args.lists is in device memory, so the host knows only an upper bound for the number
/// of rows of all lists: `num_rows`. Without lists (rows is null), all pairs are computed.
template <class T>
struct CudaAttention {
  /// The passes that cuDNN computes of this call, the gradient only if there is args.lse, by math_mode().
  /// Throws DeviceError when the mode requires cuDNN but cuDNN does not support both.
  static CudnnPasses for_cudnn(std::string_view op, const AttentionForward<T>& args);
  /// The log-sum-exp of all pairs as backward() takes it, in list order and in powers of two, from that of
  /// cuDNN, `natural`.
  static void order_lse(const AttentionShape& shape, const float* natural, float* lse);

  /// out = gate * softmax(scale q k^T) v for the rows of the lists, and zeros for all other pairs.
  static void forward(const AttentionForward<T>& args, std::int64_t num_rows);
  /// forward() for a few query tokens against many keys.
  static void decode(const AttentionForward<T>& args, std::int64_t num_rows);
  /// Computes dq, dk, dv and dgates; args.num_groups and args.dq_partials are not used, args.out only by the
  /// tensor core kernels.
  static void backward(const AttentionBackward<T>& args, std::int64_t num_rows);
};

}  // namespace moh
