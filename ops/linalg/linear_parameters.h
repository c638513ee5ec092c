#pragma once

#include <vector>

#include "autograd/gradient_target.h"
#include "autograd/variable.h"
#include "ops/op.h"

namespace moh {

/// x [..., D] as a matrix [N, D].
Tensor as_matrix(const Tensor& x, Rows rows);

/// The sum of the rows of dy [..., O], [O]: the gradient of a bias, in the accumulation dtype.
Tensor bias_gradient(const Tensor& dy);

/// The shape with its last extent replaced by `last`.
Shape with_last(const Shape& shape, std::int64_t last);

/// Weight w [O, I] and bias b [O] (may be undefined) of y = x w^T + b, as saved for the backward pass
/// of an op.
class LinearParameters {
 public:
  explicit LinearParameters(const Variable& w, const Variable& b = {});

  const Tensor& weight() const { return w_.value(); }
  bool need_gradients() const { return w_.needed() || b_.needed(); }

  /// Undefined if not needed.
  struct Gradients {
    Tensor dw, db;
  };
  /// From matrices dy [N, O] and x [N, I]; x is read only for dw, which is computed where a leaf's gradient
  /// is, or added to it there. Both are in the accumulation dtype, unless that leaf's gradient is another.
  Gradients gradients(const Tensor& dy, const Tensor& x) const;

 private:
  GradientTarget w_, b_;
};

/// Weights [O_i, I] and biases [O_i] of packed_linear(), as saved for its backward pass. Biases are all
/// defined, or none.
class PackedLinearParameters {
 public:
  PackedLinearParameters(const std::vector<Variable>& weights, const std::vector<Variable>& biases);

  /// dy [N, sum of O] times the weights, [N, I] of `dtype`; added to `sum`, of this shape and dtype, if that
  /// is defined.
  Tensor input_gradient(const Tensor& dy, DType dtype, const Tensor& sum = {}) const;
  /// Gradients of the weights, then of the biases if there are any, each as in LinearParameters::gradients().
  std::vector<Tensor> gradients(const Tensor& dy, const Tensor& x) const;

 private:
  std::vector<Tensor> weight_gradients(const Tensor& dy, const Tensor& x) const;

  std::vector<GradientTarget> weights_, biases_;
};

}  // namespace moh
