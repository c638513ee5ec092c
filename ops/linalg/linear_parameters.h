#pragma once

#include "autograd/variable.h"
#include "ops/op.h"

namespace moh {

/// x [..., D] as its N rows.
Tensor as_matrix(const Tensor& x, Rows rows);

/// The rows of dy [..., O] summed, [O]: the gradient of a bias, in the type that it is summed in.
Tensor bias_gradient(const Tensor& dy);

/// A shape with another last extent.
Shape with_last(const Shape& shape, std::int64_t last);

/// Weight w [O, I] and bias b [O], or none, of y = x w^T + b, as the backward pass of an op keeps them.
class LinearParameters {
 public:
  explicit LinearParameters(const Variable& w, const Variable& b = {});

  const Tensor& weight() const { return w_.value(); }
  bool need_dw() const { return needs_dw_; }
  bool need_gradients() const { return needs_dw_ || needs_db_; }

  /// Undefined where none is needed.
  struct Gradients {
    Tensor dw, db;
  };
  /// From matrices dy [N, O] and x [N, I]; the latter is read only for dw. dw is added to what a leaf has
  /// gathered already; the gradients of parameters stay in the type that they are summed in.
  Gradients gradients(const Tensor& dy, const Tensor& x) const;

 private:
  Variable
      w_;  ///< the leaf itself, to whose gradient it may add; a weight that is computed as its value alone
  bool needs_dw_, needs_db_;
};

}  // namespace moh
