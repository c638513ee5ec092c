#include "ops/shape/repeat_heads.h"

#include "ops/op.h"
#include "ops/shape/repeat_heads_kernels.h"

namespace moh {

Variable repeat_heads(const Variable& x, std::int64_t first, std::int64_t times) {
  Check("repeat_heads")
      .floating("x", x)
      .rank("x", x, 4)
      .in_range("first", static_cast<double>(first), 0, static_cast<double>(x.dim(2)))
      .positive("times", static_cast<double>(times));
  const RepeatedHeads shape{x.dim(0) * x.dim(1), first, x.dim(2) - first, times, x.dim(3)};
  const Tensor y =
      empty({x.dim(0), x.dim(1), first + shape.repeated * times, x.dim(3)}, x.dtype(), x.device());
  run_kernel("repeat_heads", x.value(), [&]<class Backend, class T>() {
    RepeatHeadsKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), shape);
  });
  return record("repeat_heads", y, {x}, [shape, of_x = x.shape()](const Tensor& dy) -> Grads {
    const Tensor dx = empty(of_x, dy.dtype(), dy.device());
    run_kernel("repeat_heads", dy, [&]<class Backend, class T>() {
      RepeatHeadsKernels<Backend, T>::backward(dy.data<T>(), dx.data<T>(), shape);
    });
    return {dx};
  });
}

}  // namespace moh
