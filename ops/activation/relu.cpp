#include "ops/activation/relu.h"

#include "ops/activation/relu_kernels.h"
#include "ops/op.h"

namespace moh {

Variable relu(const Variable& x) {
  Check("relu").floating("x", x);
  const Tensor y = empty_like(x.value());
  run_kernel("relu", y, [&]<class Backend, class T>() {
    ReluKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), y.numel());
  });
  return record("relu", y, {x}, [y](const Tensor& dy) -> Grads {
    const Tensor dx = empty_like(y);
    run_kernel("relu", dy, [&]<class Backend, class T>() {
      ReluKernels<Backend, T>::backward(dy.data<T>(), y.data<T>(), dx.data<T>(), dx.numel());
    });
    return {dx};
  });
}

}  // namespace moh
