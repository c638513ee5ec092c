#include "ops/norm/rms_norm.h"

#include "ops/norm/rms_norm_kernels.h"
#include "ops/op.h"

namespace moh {

Variable rms_norm(const Variable& x, const Variable& w, double eps) {
  Check("rms_norm").floating("x", x).min_rank("x", x, 1).shape("w", w, {x.dim(-1)}, "last axis of x");
  Check("rms_norm").like("w", w, "x", x).positive("eps", eps);
  const Rows rows = rows_of(x);
  Tensor y = empty_like(x.value());
  Tensor r = empty({rows.count}, accumulate_dtype(x.dtype()), x.device());
  run_kernel("rms_norm", x.value(), [&]<class Backend, class T>() {
    RmsNormKernels<Backend, T>::forward(x.value().data<T>(), w.value().data<T>(), y.data<T>(),
                                        r.data<Acc<T>>(), rows, eps);
  });
  return record("rms_norm", y, {x, w}, [x = x.value(), w = w.value(), r, rows](const Tensor& dy) -> Grads {
    Tensor dx = empty_like(x), dw = empty_like(w);
    run_kernel("rms_norm", x, [&]<class Backend, class T>() {
      RmsNormKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), w.data<T>(), r.data<Acc<T>>(),
                                           dx.data<T>(), dw.data<T>(), rows);
    });
    return {dx, dw};
  });
}

}  // namespace moh
