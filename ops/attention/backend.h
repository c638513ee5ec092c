#pragma once

#include <string>

#include "core/dtype.h"
#include "core/math_mode.h"

namespace moh {

/// Whether AttentionBackend::kAuto prefers cuDNN on a GPU of this compute capability (90 for 9.0): on Hopper
/// its kernels use instructions that moh's kernels do not.
constexpr bool prefers_cudnn(int capability) {
  return capability >= 90;
}

/// Whose kernels compute dense attention in `dtype` on the open GPU under `backend`, and why, for logs.
std::string describe_attention_backend(AttentionBackend backend, DType dtype);

}  // namespace moh
