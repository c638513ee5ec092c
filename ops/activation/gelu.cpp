#include "ops/activation/gelu.h"

#include "ops/activation/gelu_kernels.h"
#include "ops/op.h"

namespace moh {

Variable gelu(const Variable& x, GeluForm form) {
  Check("gelu").floating("x", x);
  Tensor y = empty_like(x.value());
  run_kernel<MatrixIsas>("gelu", y, [&]<class Backend, class T>() {
    GeluKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), y.numel(), form);
  });
  return record("gelu", y, {x}, [x = x.value(), form](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(x);
    run_kernel<MatrixIsas>("gelu", dy, [&]<class Backend, class T>() {
      GeluKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), dx.data<T>(), dx.numel(), form);
    });
    return {dx};
  });
}

}  // namespace moh
