#pragma once

#include <string>

#include "core/dtype.h"

namespace moh {

/// Whose kernels compute dense attention on a GPU; that of chosen heads is always moh's.
enum class AttentionBackend {
  kAuto,   ///< cuDNN's where they are expected to be faster and compute the case, else moh's
  kMoh,    ///< moh's
  kCudnn,  ///< cuDNN's; what they do not compute is an error
};

/// What the calls that follow use; kAuto at first.
AttentionBackend attention_backend();
void set_attention_backend(AttentionBackend backend);

/// Whether kAuto prefers cuDNN on a GPU of this compute capability (90 for 9.0). On Hopper its kernels use
/// instructions that moh's do not.
constexpr bool prefers_cudnn(int capability) {
  return capability >= 90;
}

/// Who computes dense attention in `dtype` on the open GPU, and why, for logs.
std::string describe_attention_backend(DType dtype);

}  // namespace moh
