#include "ops/norm/rms_norm.h"

#include "autograd/gradient_target.h"
#include "ops/cpu/row_sums.h"
#include "ops/norm/rms_norm_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

Rows check_rms_norm(std::string_view op, const Variable& x, const Variable& w, double eps) {
  Check(op).floating("x", x).min_rank("x", x, 1).shape("w", w, {x.dim(-1)}, "last axis of x");
  Check(op).like("w", w, "x", x).positive("eps", eps);
  return rows_of(x);
}

/// Allocates r, the reciprocal root mean square of each row.
Tensor scales_of(const Variable& x, Rows rows) {
  return empty({rows.count}, accumulate_dtype(x.dtype()), x.device());
}

/// The gradients of x, the normalised tensor, to which `dsum` is added if defined, and of the weight, which
/// is undefined unless needed, and not rounded: micro-batches add theirs up.
std::pair<Tensor, Tensor> gradients(std::string_view op, const Tensor& dy, const Tensor& dsum,
                                    const Tensor& x, const GradientTarget& w, const Tensor& r, Rows rows) {
  const bool needs_dw = w.needed();
  Tensor dx = empty_like(x), dw = needs_dw ? w.contribution() : Tensor();
  const auto run = [&]<class Backend, class T>() {
    RmsNormKernels<Backend, T>::backward(dy.data<T>(), dsum.defined() ? dsum.data<T>() : nullptr, x.data<T>(),
                                         w.value().data<T>(), r.data<Acc<T>>(), dx.data<T>(),
                                         needs_dw ? dw.data<Acc<T>>() : nullptr, rows);
  };
  run_kernel<MatrixIsas>(op, x, run, RowSumsWorkspace{needs_dw ? rows : Rows()});
  return {dx, dw};
}

}  // namespace

Variable rms_norm(const Variable& x, const Variable& w, double eps) {
  const Rows rows = check_rms_norm("rms_norm", x, w, eps);
  Tensor y = empty_like(x.value()), r = scales_of(x, rows);
  run_kernel<MatrixIsas>("rms_norm", x.value(), [&]<class Backend, class T>() {
    RmsNormKernels<Backend, T>::forward(x.value().data<T>(), {}, w.value().data<T>(), y.data<T>(),
                                        r.data<Acc<T>>(), rows, eps);
  });
  return record("rms_norm", y, {x, w},
                [x = x.value(), w = GradientTarget(w), r, rows](const Tensor& dy) -> Grads {
                  const auto [dx, dw] = gradients("rms_norm", dy, {}, x, w, r, rows);
                  return {dx, dw};
                });
}

AddedAndNormed add_rms_norm(const Variable& x, const Variable& branch, const Variable& w, double eps) {
  const Rows rows = check_rms_norm("add_rms_norm", x, w, eps);
  const bool adds = branch.defined();
  if (adds) Check("add_rms_norm").like("branch", branch, "x", x).shape("branch", branch, x.shape(), "as x");
  Tensor sum = adds ? empty_like(x.value()) : x.value(), y = empty_like(x.value()), r = scales_of(x, rows);
  run_kernel<MatrixIsas>("add_rms_norm", x.value(), [&]<class Backend, class T>() {
    const NormAddend<T> add = adds ? NormAddend<T>{branch.value().data<T>(), sum.data<T>()} : NormAddend<T>();
    RmsNormKernels<Backend, T>::forward(x.value().data<T>(), add, w.value().data<T>(), y.data<T>(),
                                        r.data<Acc<T>>(), rows, eps);
  });
  const std::vector<Variable> outputs =
      record_outputs("add_rms_norm", {sum, y}, {x, branch, w},
                     [sum, w = GradientTarget(w), r, rows](std::span<const Tensor> dys) -> Grads {
                       if (!dys[1].defined()) return {dys[0], dys[0], Tensor()};
                       const auto [dx, dw] = gradients("add_rms_norm", dys[1], dys[0], sum, w, r, rows);
                       return {dx, dx, dw};
                     });
  return {outputs[0], outputs[1]};
}

}  // namespace moh
