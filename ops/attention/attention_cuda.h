#pragma once

#include <cstdint>
#include <string_view>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Attention on the device. `num_rows` is at least the number of rows of all lists, whose lengths only the
/// device knows; args.lists points to its memory, or is that of all pairs.
template <class T>
struct CudaAttention {
  /// Whether math_mode() leaves this call of the op to cuDNN, forward and backward alike. Throws
  /// DeviceError where it asks for cuDNN, which does not compute it.
  static bool is_for_cudnn(std::string_view op, const AttentionForward<T>& args);

  /// out = gate * softmax(scale q k^T) v for the rows of the lists, and zeros for all other pairs.
  static void forward(const AttentionForward<T>& args, std::int64_t num_rows);
  /// The same for a few query tokens against many keys.
  static void decode(const AttentionForward<T>& args, std::int64_t num_rows);
  /// dq, dk, dv and dgates; args.out, num_groups and dq_partials are not used.
  static void backward(const AttentionBackward<T>& args, std::int64_t num_rows);
};

}  // namespace moh
