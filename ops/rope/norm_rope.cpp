#include "ops/rope/norm_rope.h"

#include "ops/cpu/row_sums.h"
#include "ops/op.h"
#include "ops/rope/norm_rope_kernels.h"

namespace moh {

namespace {

/// The tensors that both passes read.
struct NormRopeInputs {
  Tensor x, w, starts;
  RopeTable table;

  template <class T>
  NormRopeOperands<T> kernels() const {
    return {x.data<T>(), w.data<T>(), table.cos.data<Acc<T>>(), table.sin.data<Acc<T>>()};
  }
  RopeSizes sizes() const {
    return {x.dim(0), x.dim(1),     x.dim(2),
            x.dim(2), x.dim(3) / 2, starts.defined() ? starts.data<std::int32_t>() : nullptr};
  }
};

Grads gradients(const Tensor& dy, const NormRopeInputs& of, const Tensor& r) {
  Tensor dx = empty_like(of.x), dw = empty(of.w.shape(), accumulate_dtype(of.w.dtype()), of.w.device());
  const auto run = [&]<class Backend, class T>() {
    NormRopeKernels<Backend, T>::backward(dy.data<T>(), of.kernels<T>(), r.data<Acc<T>>(), dx.data<T>(),
                                          dw.data<Acc<T>>(), of.sizes());
  };
  run_kernel("norm_rope", of.x, run, RowSumsWorkspace{{r.numel(), of.w.numel()}});
  return {dx, dw};
}

}  // namespace

Variable norm_rope(const Variable& x, const Variable& w, double eps, const RopeTable& table,
                   const Tensor& document_starts) {
  check_rope_operands("norm_rope", x, table, document_starts);
  Check("norm_rope").shape("w", w, {x.dim(3)}, "last axis of x").like("w", w, "x", x).positive("eps", eps);
  const NormRopeInputs of{x.value(), w.value(), document_starts, table.rows(0, x.dim(1))};
  Tensor y = empty_like(of.x);
  Tensor r = empty({x.dim(0), x.dim(1), x.dim(2)}, accumulate_dtype(x.dtype()), x.device());
  run_kernel("norm_rope", of.x, [&]<class Backend, class T>() {
    NormRopeKernels<Backend, T>::forward(of.kernels<T>(), y.data<T>(), r.data<Acc<T>>(), of.sizes(), eps);
  });
  return record("norm_rope", y, {x, w}, [of, r](const Tensor& dy) -> Grads { return gradients(dy, of, r); });
}

}  // namespace moh
