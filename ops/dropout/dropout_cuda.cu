#include "ops/cuda/map.h"
#include "ops/dropout/dropout_kernels.h"
#include "ops/dropout/dropout_mask_cuda.h"

namespace moh {

namespace {

struct ApplyMask {
  DropoutMask mask;
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t i) const {
    out[0] = in[0] * device_factor_of(mask, i);
  }
};

}  // namespace

template <class Backend, class T>
void DropoutKernels<Backend, T>::apply(const T* x, T* y, std::int64_t count, DropoutMask mask) {
  launch_map<T, 1, 1>("dropout", count, {{x}, {y}}, ApplyMask{mask});
}

template struct DropoutKernels<Cuda, float>;
template struct DropoutKernels<Cuda, bfloat16>;

}  // namespace moh
