#include "ops/activation/swiglu.h"

#include "ops/activation/swiglu_kernels.h"
#include "ops/linalg/linear_parameters.h"
#include "ops/op.h"

namespace moh {

Variable swiglu(const Variable& gate_up) {
  Check("swiglu").floating("gate_up", gate_up).min_rank("gate_up", gate_up, 1);
  const Tensor& x = gate_up.value();
  if (x.dim(-1) % 2 != 0)
    throw ShapeError(error_message("swiglu", "gate_up", "an even last axis", to_string(x.shape())));
  const Rows rows{rows_of(gate_up).count, x.dim(-1) / 2};
  const Tensor y = empty(with_last(x.shape(), rows.width), x.dtype(), x.device());
  run_kernel<MatrixIsas>("swiglu", y, [&]<class Backend, class T>() {
    SwigluKernels<Backend, T>::forward(x.data<T>(), y.data<T>(), rows);
  });
  return record("swiglu", y, {gate_up}, [x, rows](const Tensor& dy) -> Grads {
    const Tensor dx = empty_like(x);
    run_kernel<MatrixIsas>("swiglu", dy, [&]<class Backend, class T>() {
      SwigluKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(), dx.data<T>(), rows);
    });
    return {dx};
  });
}

}  // namespace moh
