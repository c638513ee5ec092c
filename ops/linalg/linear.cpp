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

/// Checks x and a weight, and the dtype that the result is asked for; returns the latter.
DType check_linear(Check& check, std::string_view op, const Variable& x, const Variable& w,
                   std::optional<DType> out) {
  check.rank("w", w, 2).like("w", w, "x", x);
  check.require(w.dim(1) == x.dim(-1), "w", "[O, " + std::to_string(x.dim(-1)) + "] (last axis of x)",
                to_string(w.shape()));
  const DType dtype = out.value_or(x.dtype());
  if (dtype != x.dtype() && dtype != accumulate_dtype(x.dtype())) {
    throw DTypeError(
        error_message(op, "out", "the dtype of x, or the one it is summed in", dtype_name(dtype)));
  }
  return dtype;
}

/// A weight for the backward pass of an op: the leaf itself, to whose gradient it may add; a weight that is
/// computed as its value alone.
Variable for_backward(const Variable& w) {
  return w.is_leaf() ? w : w.detach();
}

/// The gradient of a weight, added to what the weight has gathered already; of parameters it stays in the
/// type that it is summed in. `row_sums`, if defined, gets the gradient of the bias beside it.
Tensor weight_gradient(const Variable& w, const Tensor& dy, const Tensor& x, const Tensor& row_sums = {}) {
  const bool adds = w.grad().defined();
  Tensor dw = adds ? w.grad() : empty(w.shape(), accumulate_dtype(w.dtype()), w.device());
  if (row_sums.defined()) {
    matmul_row_sums_into(dw, transposed(dy), x, row_sums, adds);
  } else {
    matmul_into(dw, transposed(dy), x, adds);
  }
  return dw;
}

/// That of a bias alone.
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
  check.floating("x", x).min_rank("x", x, 1);
  const DType dtype = check_linear(check, "linear", x, w, out);
  if (b.defined()) check.shape("b", b, {w.dim(0)}, "first axis of w").like("b", b, "x", x);
  const Rows in = rows_of(x), rows{in.count, w.dim(0)};
  const Tensor y = empty({rows.count, rows.width}, dtype, x.device());
  if (b.defined()) {
    matmul_bias_into(y, as_matrix(x.value(), in), transposed(w.value()), b.value().to(dtype));
  } else {
    matmul_into(y, as_matrix(x.value(), in), transposed(w.value()));
  }
  return record("linear", y.reshape(with_last(x.shape(), rows.width)), {x, w, b},
                [x = x.value(), w = for_backward(w), in, rows, needs_dx = x.requires_grad(),
                 needs_dw = w.requires_grad(), needs_db = b.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = as_matrix(dy, rows);
                  Grads grads(3);
                  if (needs_dx) grads[0] = matmul({dy_matrix}, {w.value()}, x.dtype()).reshape(x.shape());
                  if (needs_dw && needs_db)
                    grads[2] = empty({rows.width}, accumulate_dtype(w.dtype()), w.device());
                  if (needs_dw) grads[1] = weight_gradient(w, dy_matrix, as_matrix(x, in), grads[2]);
                  if (needs_db && !needs_dw) grads[2] = sum_rows(dy, rows);
                  return grads;
                });
}

std::vector<Variable> linears(const Variable& x, const std::vector<Variable>& weights,
                              std::optional<DType> out) {
  Check check("linears");
  check.floating("x", x).min_rank("x", x, 1);
  const Rows in = rows_of(x);
  std::vector<Tensor> results;
  std::vector<Variable> inputs = {x};
  std::vector<Variable> kept;
  std::vector<bool> needs_dw;
  for (const Variable& w : weights) {
    const DType dtype = check_linear(check, "linears", x, w, out);
    const Tensor y = matmul(as_matrix(x.value(), in), transposed(w.value()), dtype);
    results.push_back(y.reshape(with_last(x.shape(), w.dim(0))));
    inputs.push_back(w);
    kept.push_back(for_backward(w));
    needs_dw.push_back(w.requires_grad());
  }
  return record_outputs("linears", std::move(results), inputs,
                        [x = x.value(), kept, in, needs_dw,
                         needs_dx = x.requires_grad()](std::span<const Tensor> dys) -> Grads {
                          Grads grads(kept.size() + 1);
                          Tensor dx;
                          for (std::size_t i = 0; i < kept.size(); ++i) {
                            if (!dys[i].defined()) continue;
                            const Tensor dy = as_matrix(dys[i], {in.count, kept[i].dim(0)});
                            if (needs_dw[i]) grads[i + 1] = weight_gradient(kept[i], dy, as_matrix(x, in));
                            if (!needs_dx) continue;
                            const bool first = !dx.defined();
                            if (first)
                              dx = empty({in.count, in.width}, accumulate_dtype(x.dtype()), x.device());
                            matmul_into(dx, dy, kept[i].value(), /*accumulate=*/!first);
                          }
                          if (dx.defined()) grads[0] = dx.to(x.dtype()).reshape(x.shape());
                          return grads;
                        });
}

}  // namespace moh
