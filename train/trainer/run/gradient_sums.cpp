#include "train/trainer/run/gradient_sums.h"

#include <optional>

#include "core/cuda/queue.h"

namespace moh {

Tensor GradientSums::lasting_zeros(std::int64_t elements, DType dtype, Device device) {
  const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
  std::optional<cuda::PersistentMemoryScope> persistent;
  if (device != kCpu) persistent.emplace();
  return zeros({elements}, dtype, device);
}

DType GradientSums::wire_of(const Tensor& gradients, DType wire) {
  return gradients.dtype() == DType::kFloat32 ? wire : gradients.dtype();
}

Tensor GradientSums::rows_of(const Tensor& gradients, int processes) {
  return gradients.reshape({processes, gradients.numel() / processes});
}

}  // namespace moh
