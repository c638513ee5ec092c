#pragma once

#include <string>

#include "core/dtype.h"
#include "ops/attention/attention_kernels.h"

namespace moh {

/// Dense attention in bfloat16 by cuDNN's fused kernels (scaled dot-product attention of its graph API), with
/// deterministic gradients where math_mode() asks for them. Builds without cuDNN link cudnn_absent.cpp
/// instead.
struct CudnnAttention {
  /// Why cuDNN is unavailable; empty if it is available.
  static std::string absence();

  /// Why cuDNN does not support this call, and why not its gradient; empty if it does. Execution plans, which
  /// are slow to build, are cached by shape.
  static std::string refusal(const AttentionForward<bfloat16>& args);
  static std::string refusal_of_gradient(const AttentionForward<bfloat16>& args);

  /// args.lse, if given, gets log(softmax denominator) as [B, H, T]: natural, and not in list order, as
  /// backward() takes it. No lists, no gates.
  static void forward(const AttentionForward<bfloat16>& args);
  /// dq, dk and dv.
  static void backward(const AttentionBackward<bfloat16>& args);

  /// cuDNN's error for the graph of a call on GPUs of a compute capability (90 for 9.0); empty if it is
  /// valid. Needs cuDNN, but no GPU.
  static std::string graph_error(const AttentionForward<bfloat16>& args, bool backward, int capability);
};

}  // namespace moh
