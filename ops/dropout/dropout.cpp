#include "ops/dropout/dropout.h"

#include "ops/dropout/dropout_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

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
  const DropoutMask mask = dropout_mask("dropout", "p", p, key, x.device());
  if (p == 0.0) return x;
  return record("dropout", masked(x.value(), mask), {x},
                [mask](const Tensor& dy) -> Grads { return {masked(dy, mask)}; });
}

}  // namespace moh
