#pragma once

#include <string>

#include "core/dtype.h"
#include "ops/attention/attention_kernels.h"

namespace moh {

/// Dense attention in bfloat16 by cuDNN's fused kernels (scaled dot-product attention of its graph
/// interface), with reproducible gradients. cudnn_absent.cpp stands in for it in builds without cuDNN.
struct CudnnAttention {
  /// Why cuDNN cannot be called; empty if it can.
  static std::string absence();

  /// Empty where cuDNN computes this call, and its gradient if asked for; else the reason why not. The plans,
  /// which take long to make, are kept by shape.
  static std::string refusal(const AttentionForward<bfloat16>& args, bool with_backward);

  /// args.lse, if given, gets log(softmax denominator) as [B, H, T]: natural, and not in list order, for
  /// backward() alone. No lists, no gates.
  static void forward(const AttentionForward<bfloat16>& args);
  /// dq, dk and dv.
  static void backward(const AttentionBackward<bfloat16>& args);

  /// What is wrong with the graph of a call on GPUs of a compute capability (90 for 9.0); empty if nothing
  /// is. Needs cuDNN, but no GPU.
  static std::string graph_error(const AttentionForward<bfloat16>& args, bool backward, int capability);
};

}  // namespace moh
