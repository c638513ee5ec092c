#include "core/error.h"
#include "ops/conv/cudnn/cudnn_convolution.h"

// For builds without cuDNN: every call throws DeviceError.

namespace moh {

namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      error_message("conv2d", "device cuda", "a build with cuDNN", "this build has no cuDNN",
                    "configure with cuDNN's headers beside the CUDA toolkit and -DMOH_CUDNN=ON, or set "
                    "device: cpu"));
}

}  // namespace

std::string CudnnConvolution::absence() {
  return "this build has no cuDNN";
}
void CudnnConvolution::forward(const ConvShape&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  refuse();
}
void CudnnConvolution::backward_data(const ConvShape&, const Tensor&, const Tensor&, const Tensor&) {
  refuse();
}
void CudnnConvolution::backward_weights(const ConvShape&, const Tensor&, const Tensor&, const Tensor&) {
  refuse();
}

}  // namespace moh
