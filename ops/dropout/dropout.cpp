#include "ops/dropout/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/dropout/dropout_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

DropoutMask mask_of(double p, RandomKey key) {
  // Rounding up to a whole word must not reach 2^32, which would wrap to "keep all".
  const double threshold = std::min(std::round(p * 0x1p32), 0x1p32 - 1.0);
  return {key.seed, key.stream, static_cast<std::uint32_t>(threshold), 1.0 / (1.0 - p), key.first_stream};
}

Tensor masked(const Tensor& x, DropoutMask mask) {
  Tensor y = empty_like(x);
  run_kernel("dropout", x, [&]<class Backend, class T>() {
    DropoutKernels<Backend, T>::apply(x.data<T>(), y.data<T>(), x.numel(), mask);
  });
  return y;
}

}  // namespace

Variable dropout(const Variable& x, double p, RandomKey key) {
  Check("dropout").floating("x", x);
  if (!(p >= 0.0 && p < 1.0)) {
    throw ValueError(error_message("dropout", "p", "0 or more and below 1", std::to_string(p)));
  }
  if (p == 0.0) return x;
  MOH_CHECK(key.first_stream == nullptr || x.device() != kCpu, "a key of the GPU is for tensors there");
  const DropoutMask mask = mask_of(p, key);
  return record("dropout", masked(x.value(), mask), {x},
                [mask](const Tensor& dy) -> Grads { return {masked(dy, mask)}; });
}

}  // namespace moh
