#include "ops/linalg/linear_parameters.h"

#include <algorithm>
#include <array>

#include "ops/linalg/linear_kernels.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

Tensor sum_rows(const Tensor& dy, Rows rows) {
  Tensor db = empty({rows.width}, accumulate_dtype(dy.dtype()), dy.device());
  run_kernel("linear", dy, [&]<class Backend, class T>() {
    LinearKernels<Backend, T>::sum_rows(dy.data<T>(), db.data<Acc<T>>(), rows, rows.width);
  });
  return db;
}

}  // namespace

Tensor as_matrix(const Tensor& x, Rows rows) {
  return x.reshape({rows.count, rows.width});
}

Shape with_last(const Shape& shape, std::int64_t last) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape.extents(), extents.begin());
  extents[static_cast<std::size_t>(shape.rank() - 1)] = last;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank())));
}

LinearParameters::LinearParameters(const Variable& w, const Variable& b)
    : w_(w.is_leaf() ? w : w.detach()), needs_dw_(w.requires_grad()), needs_db_(b.requires_grad()) {}

LinearParameters::Gradients LinearParameters::gradients(const Tensor& dy, const Tensor& x) const {
  if (!needs_dw_) return {{}, needs_db_ ? sum_rows(dy, {dy.dim(0), dy.dim(1)}) : Tensor()};
  const DType dtype = accumulate_dtype(w_.dtype());
  const bool adds = w_.grad().defined();
  Gradients result{adds ? w_.grad() : empty(w_.shape(), dtype, w_.device()), {}};
  if (needs_db_) {
    result.db = empty({w_.dim(0)}, dtype, w_.device());
    matmul_row_sums_into(result.dw, transposed(dy), x, result.db, adds);
  } else {
    matmul_into(result.dw, transposed(dy), x, adds);
  }
  return result;
}

}  // namespace moh
