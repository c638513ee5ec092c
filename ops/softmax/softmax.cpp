#include "ops/softmax/softmax.h"

#include "ops/op.h"
#include "ops/softmax/softmax_kernels.h"

namespace moh {

Variable softmax(const Variable& x) {
  Check("softmax").floating("x", x).min_rank("x", x, 1);
  const Rows rows = rows_of(x);
  Tensor y = empty_like(x.value());
  run_kernel("softmax", y, [&]<class Backend, class T>() {
    SoftmaxKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), rows);
  });
  return record("softmax", y, {x}, [y, rows](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(y);
    run_kernel("softmax", dy, [&]<class Backend, class T>() {
      SoftmaxKernels<Backend, T>::backward(dy.data<T>(), y.data<T>(), dx.data<T>(), rows);
    });
    return {dx};
  });
}

}  // namespace moh
