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

PackedLinearParameters::PackedLinearParameters(const std::vector<Variable>& weights,
                                               const std::vector<Variable>& biases)
    : weights_(weights.begin(), weights.end()), biases_(biases.begin(), biases.end()) {}

Tensor PackedLinearParameters::input_gradient(const Tensor& dy, DType dtype, const Tensor& sum) const {
  std::vector<Tensor> weights;
  for (const GradientTarget& weight : weights_) weights.push_back(weight.value());
  if (const Tensor whole = joined_rows(weights); whole.defined()) {
    if (!sum.defined()) return matmul({dy}, {whole}, dtype);
    matmul_into(sum, dy, whole, /*accumulate=*/true);
    return sum;
  }
  const Tensor dx = empty({dy.dim(0), weights.front().dim(1)}, accumulate_dtype(dtype), dy.device());
  std::int64_t begin = 0;
  for (const Tensor& weight : weights) {
    matmul_into(dx, columns_of(dy, begin, weight.dim(0)), weight, /*accumulate=*/begin > 0);
    begin += weight.dim(0);
  }
  if (!sum.defined()) return dx.to(dtype);
  sum.add(dx);
  return sum;
}

/// In one multiplication, where the gradients lie one behind the other and are all begun or all added to.
std::vector<Tensor> PackedLinearParameters::weight_gradients(const Tensor& dy, const Tensor& x) const {
  std::vector<Tensor> grads;
  std::vector<bool> adds;
  for (const GradientTarget& weight : weights_) {
    const GradientTarget::Sum sum = weight.needed() ? weight.sum() : GradientTarget::Sum{};
    grads.push_back(sum.tensor);
    adds.push_back(sum.adds);
  }
  const bool alike = std::ranges::all_of(weights_, &GradientTarget::needed) &&
                     std::ranges::count(adds, adds.front()) == std::ssize(adds);
  if (const Tensor whole = alike ? joined_rows(grads) : Tensor(); whole.defined()) {
    matmul_into(whole, transposed(dy), x, adds.front());
    return grads;
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::int64_t rows = weights_[i].value().dim(0);
    if (grads[i].defined())
      matmul_into(grads[i], columns_of(dy, begin, rows, /*is_transposed=*/true), x, adds[i]);
    begin += rows;
  }
  return grads;
}

std::vector<Tensor> PackedLinearParameters::gradients(const Tensor& dy, const Tensor& x) const {
  std::vector<Tensor> grads = weight_gradients(dy, x);
  if (!std::ranges::any_of(biases_, &GradientTarget::needed)) {
    grads.resize(grads.size() + biases_.size());
    return grads;
  }
  const Tensor sums = bias_gradient(dy);
  std::int64_t begin = 0;
  for (const GradientTarget& bias : biases_) {
    const std::int64_t end = begin + bias.value().dim(0);
    grads.push_back(bias.needed() ? sums.slice(begin, end) : Tensor());
    begin = end;
  }
  return grads;
}

}  // namespace moh
