#include "ops/linalg/linear.h"

#include "ops/linalg/linear_kernels.h"
#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

namespace {

Tensor as_matrix(const Tensor& x, Rows rows) {
  return x.reshape({rows.count, rows.width});
}

Shape with_last(const Shape& shape, std::int64_t last) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape.extents(), extents.begin());
  extents[static_cast<std::size_t>(shape.rank() - 1)] = last;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank())));
}

void add_bias(const Tensor& y, const Tensor& b, Rows rows) {
  run_kernel("linear", b, [&]<class Backend, class T>() {
    if (y.dtype() == b.dtype())
      return LinearKernels<Backend, T>::add_bias(b.data<T>(), y.data<T>(), rows, rows.width);
    if constexpr (std::is_same_v<T, bfloat16>) {
      LinearKernels<Backend, T>::add_bias(b.data<T>(), y.data<float>(), rows, rows.width);
    }
  });
}

Tensor sum_rows(const Tensor& dy, Rows rows) {
  Tensor db = empty({rows.width}, accumulate_dtype(dy.dtype()), dy.device());
  run_kernel("linear", dy, [&]<class Backend, class T>() {
    LinearKernels<Backend, T>::sum_rows(dy.data<T>(), db.data<Acc<T>>(), rows, rows.width);
  });
  return db;
}

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, std::optional<DType> out) {
  Check check("linear");
  check.floating("x", x).min_rank("x", x, 1).rank("w", w, 2).like("w", w, "x", x);
  check.require(w.dim(1) == x.dim(-1), "w", "[O, " + std::to_string(x.dim(-1)) + "] (last axis of x)",
                to_string(w.shape()));
  if (b.defined()) check.shape("b", b, {w.dim(0)}, "first axis of w").like("b", b, "x", x);
  const DType dtype = out.value_or(x.dtype());
  if (dtype != x.dtype() && dtype != accumulate_dtype(x.dtype())) {
    throw DTypeError(
        error_message("linear", "out", "the dtype of x, or the one it is summed in", dtype_name(dtype)));
  }
  const Rows in = rows_of(x), rows{in.count, w.dim(0)};
  const Tensor y = matmul({as_matrix(x.value(), in)}, transposed(w.value()), dtype);
  if (b.defined()) add_bias(y, b.value(), rows);
  return record("linear", y.reshape(with_last(x.shape(), rows.width)), {x, w, b},
                [x = x.value(), w = w.value(), in, rows, needs_dx = x.requires_grad(),
                 needs_dw = w.requires_grad(), needs_db = b.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = as_matrix(dy, rows);
                  Grads grads(3);
                  if (needs_dx) grads[0] = matmul({dy_matrix}, {w}, x.dtype()).reshape(x.shape());
                  // Gradients of parameters stay in the type they are summed in.
                  if (needs_dw)
                    grads[1] = matmul(transposed(dy_matrix), {as_matrix(x, in)}, accumulate_dtype(w.dtype()));
                  if (needs_db) grads[2] = sum_rows(dy, rows);
                  return grads;
                });
}

}  // namespace moh
