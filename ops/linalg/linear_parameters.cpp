#include "ops/linalg/linear_parameters.h"

#include <algorithm>
#include <array>

#include "ops/cpu/row_sums.h"
#include "ops/linalg/linear_kernels.h"
#include "ops/linalg/matmul.h"

namespace moh {

Tensor as_matrix(const Tensor& x, Rows rows) {
  return x.reshape({rows.count, rows.width});
}

Tensor bias_gradient(const Tensor& dy) {
  const std::int64_t width = dy.dim(-1);
  Tensor db = empty({width}, accumulate_dtype(dy.dtype()), dy.device());
  const Rows rows{dy.numel() / width, width};
  const auto run = [&]<class Backend, class T>() {
    LinearKernels<Backend, T>::sum_rows(dy.data<T>(), db.data<Acc<T>>(), rows, width);
  };
  run_kernel("bias_gradient", dy, run, RowSumsWorkspace{rows});
  return db;
}

Shape with_last(const Shape& shape, std::int64_t last) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape.extents(), extents.begin());
  extents[static_cast<std::size_t>(shape.rank() - 1)] = last;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank())));
}

LinearParameters::LinearParameters(const Variable& w, const Variable& b) : w_(w), b_(b) {}

LinearParameters::Gradients LinearParameters::gradients(const Tensor& dy, const Tensor& x) const {
  if (!w_.needed()) return {{}, b_.needed() ? bias_gradient(dy) : Tensor()};
  const auto [dw, adds] = w_.sum();
  if (!b_.needed() || dw.dtype() == DType::kBFloat16) {
    matmul_into(dw, transposed(dy), x, adds);
    return {dw, b_.needed() ? bias_gradient(dy) : Tensor()};
  }
  const Tensor db = b_.contribution();
  matmul_row_sums_into(dw, transposed(dy), x, db, adds);
  return {dw, db};
}

}  // namespace moh
