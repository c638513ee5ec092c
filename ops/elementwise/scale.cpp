#include "ops/elementwise/scale.h"

#include <cmath>

#include "ops/elementwise/scale_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

Tensor scaled(const Tensor& x, double factor) {
  Tensor y = empty_like(x);
  run_kernel("scale", x, [&]<class Backend, class T>() {
    ScaleKernels<Backend, T>::forward(x.data<T>(), y.data<T>(), y.numel(), static_cast<Acc<T>>(factor));
  });
  return y;
}

}  // namespace

Variable scale(const Variable& x, double factor) {
  Check("scale").floating("x", x);
  if (!std::isfinite(factor)) {
    throw ValueError(error_message("scale", "factor", "a finite number", std::to_string(factor)));
  }
  return record("scale", scaled(x.value(), factor), {x},
                [factor](const Tensor& dy) -> Grads { return {scaled(dy, factor)}; });
}

}  // namespace moh
