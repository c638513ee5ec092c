#include "ops/elementwise/gate_residual.h"

#include "ops/elementwise/gate_residual_kernels.h"
#include "ops/modulation.h"
#include "ops/op.h"

namespace moh {

Variable gate_residual(const Variable& residual, const Variable& x, const Variable& modulation,
                       std::int64_t row) {
  check_modulation("gate_residual", x, modulation, row, 1);
  Check("gate_residual").shape("residual", residual, x.shape(), "as x").like("residual", residual, "x", x);
  const std::int64_t first = row * x.dim(-1);
  const GatedRows at{rows_of(x), x.dim(0), modulation.dim(1) * x.dim(-1)};
  Tensor y = empty_like(x.value());
  run_kernel<MatrixIsas>("gate_residual", y, [&]<class Backend, class T>() {
    GateResidualKernels<Backend, T>::forward(residual.value().data<T>(), x.value().data<T>(),
                                             modulation.value().data<T>() + first, y.data<T>(), at);
  });
  return record("gate_residual", y, {residual, x, modulation},
                [x = x.value(), modulation = modulation.value(), first, at](const Tensor& dy) -> Grads {
                  Tensor dx = empty_like(x);
                  const ModulationGradient dmodulation(modulation, 2);
                  run_kernel<MatrixIsas>("gate_residual", dy, [&]<class Backend, class T>() {
                    GateResidualKernels<Backend, T>::backward(dy.data<T>(), x.data<T>(),
                                                              modulation.data<T>() + first, dx.data<T>(),
                                                              dmodulation.sums<T>(first), at);
                  });
                  return {dy, dx, dmodulation.tensor()};
                });
}

}  // namespace moh
