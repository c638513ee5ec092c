#include "ops/elementwise/add.h"

#include "ops/elementwise/add_kernels.h"
#include "ops/op.h"

namespace moh {

Variable add(const Variable& a, const Variable& b) {
  Check("add").floating("a", a).like("b", b, "a", a).shape("b", b, a.shape(), "as a");
  Tensor y = empty_like(a.value());
  run_kernel("add", a.value(), [&]<class Backend, class T>() {
    AddKernels<Backend, T>::forward(a.value().data<T>(), b.value().data<T>(), y.data<T>(), y.numel());
  });
  return record("add", y, {a, b}, [](const Tensor& dy) -> Grads { return {dy, dy}; });
}

}  // namespace moh
