#include "ops/activation/silu.h"

#include "ops/activation/silu_kernels.h"
#include "ops/op.h"

namespace moh {

Variable silu(const Variable& x) {
  Check("silu").floating("x", x);
  Tensor y = empty_like(x.value());
  run_kernel<MatrixIsas>("silu", y, [&]<class Backend, class T>() {
    SiluKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), y.numel());
  });
  return record("silu", y, {x}, [x = x.value()](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(x);
    run_kernel<MatrixIsas>("silu", dy, [&]<class Backend, class T>() {
      SiluKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), dx.data<T>(), dx.numel());
    });
    return {dx};
  });
}

}  // namespace moh
