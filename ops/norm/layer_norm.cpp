#include "ops/norm/layer_norm.h"

#include "ops/norm/layer_norm_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

Tensor value_or_undefined(const Variable& v) {
  return v.defined() ? v.value() : Tensor();
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  Check check("layer_norm");
  check.floating("x", x).min_rank("x", x, 1).positive("eps", eps);
  const Shape shape{x.dim(-1)};
  if (weight.defined()) check.shape("weight", weight, shape, "last axis of x").like("weight", weight, "x", x);
  if (bias.defined()) check.shape("bias", bias, shape, "last axis of x").like("bias", bias, "x", x);
  const Rows rows = rows_of(x);
  const Tensor w = value_or_undefined(weight), b = value_or_undefined(bias);
  Tensor y = empty_like(x.value());
  Tensor mean = empty({rows.count}, accumulate_dtype(x.dtype()), x.device());
  Tensor r = empty_like(mean);
  run_kernel("layer_norm", y, [&]<class Backend, class T>() {
    LayerNormKernels<Backend, T>::forward(x.value().data<T>(), data_or_null<T>(w), data_or_null<T>(b),
                                          y.data<T>(), mean.data<Acc<T>>(), r.data<Acc<T>>(), rows, eps);
  });
  return record("layer_norm", y, {x, weight, bias},
                [x = x.value(), w, mean, r, rows](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x), dparameters = empty({2, rows.width}, x.dtype(), x.device());
                  run_kernel("layer_norm", dy, [&]<class Backend, class T>() {
                    LayerNormKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), data_or_null<T>(w),
                                                           mean.data<Acc<T>>(), r.data<Acc<T>>(),
                                                           dx.data<T>(), dparameters.data<T>(), rows);
                  });
                  return {dx, dparameters.select(0), dparameters.select(1)};
                });
}

}  // namespace moh
