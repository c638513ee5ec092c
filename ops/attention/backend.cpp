#include "ops/attention/backend.h"

#include "core/cuda/backend.h"
#include "ops/attention/cudnn/cudnn_attention.h"

namespace moh {

std::string describe_attention_backend(AttentionBackend backend, DType dtype) {
  const std::string moh = "moh's kernels";
  if (dtype != DType::kBFloat16) return moh + ", in " + std::string(dtype_name(dtype));
  if (backend == AttentionBackend::kNative) return moh + ", as attention.backend says";
  if (backend == AttentionBackend::kCudnn) return "cuDNN, as attention.backend says";
  if (!prefers_cudnn(cuda::capability())) return moh + ", which are expected to be as fast as cuDNN's here";
  const std::string absence = CudnnAttention::absence();
  return absence.empty() ? "cuDNN where it supports the case, else " + moh
                         : moh + ", since there is no cuDNN: " + absence;
}

}  // namespace moh
