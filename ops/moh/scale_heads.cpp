#include "ops/moh/scale_heads.h"

#include "ops/moh/scale_heads_kernels.h"
#include "ops/op.h"

namespace moh {

Variable scale_heads(const Variable& x, const Variable& scales) {
  Check("scale_heads").floating("x", x).min_rank("x", x, 2);
  Check("scale_heads").shape("scales", scales, {x.dim(-2)}, "the heads of x").like("scales", scales, "x", x);
  const std::int64_t per_token = x.dim(-2) * x.dim(-1);
  const ScaledHeads shape{per_token > 0 ? x.numel() / per_token : 0, x.dim(-2), x.dim(-1)};
  Tensor y = empty_like(x.value());
  run_kernel("scale_heads", y, [&]<class Backend, class T>() {
    ScaleHeadsKernels<Backend, T>::forward(x.value().data<T>(), scales.value().data<T>(), y.data<T>(), shape);
  });
  return record("scale_heads", y, {x, scales},
                [x = x.value(), scales = scales.value(), shape](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x);
                  Tensor dscales = empty(scales.shape(), accumulate_dtype(x.dtype()), x.device());
                  run_kernel("scale_heads", dy, [&]<class Backend, class T>() {
                    ScaleHeadsKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), scales.data<T>(),
                                                            dx.data<T>(), dscales.data<Acc<T>>(), shape);
                  });
                  return {dx, dscales.to(scales.dtype())};
                });
}

}  // namespace moh
