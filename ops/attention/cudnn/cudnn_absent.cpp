#include "core/error.h"
#include "ops/attention/cudnn/cudnn_attention.h"

// For builds without cuDNN, and for the simulated GPU: cuDNN supports no call.

namespace moh {

namespace {
constexpr auto kAbsent = "this build has no cuDNN";
}

std::string CudnnAttention::absence() {
  return kAbsent;
}
std::string CudnnAttention::refusal(const AttentionForward<bfloat16>&) {
  return kAbsent;
}
std::string CudnnAttention::refusal_of_gradient(const AttentionForward<bfloat16>&) {
  return kAbsent;
}
void CudnnAttention::forward(const AttentionForward<bfloat16>&) {
  fail_check(__FILE__, __LINE__, "a build with cuDNN", kAbsent);
}
void CudnnAttention::backward(const AttentionBackward<bfloat16>&) {
  fail_check(__FILE__, __LINE__, "a build with cuDNN", kAbsent);
}
std::string CudnnAttention::graph_error(const AttentionForward<bfloat16>&, bool, int) {
  return kAbsent;
}

}  // namespace moh
