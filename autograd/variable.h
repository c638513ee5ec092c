#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace moh {

class Node;

/// A tensor with automatic differentiation, as torch.Tensor with requires_grad. A handle: copies refer to the
/// same value and gradient. A Variable is a leaf (a parameter or an input) or the output of a recorded op.
class Variable {
 public:
  /// Called with the leaf once a backward pass has completed the leaf's gradient, while the rest of the pass
  /// is still to come: once a pass, also for a leaf of several ops and of recomputed segments.
  using GradientHook = std::function<void(Variable&)>;

  /// Undefined: only defined() and requires_grad() may be called. Stands for an absent optional operand.
  Variable() = default;
  /// A leaf. Throws DTypeError when a gradient is required of a tensor that is not floating.
  explicit Variable(Tensor value, bool requires_grad = false);

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim(int axis) const { return value().dim(axis); }
  std::int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }

  /// Whether backward passes reach this variable. False for an undefined one.
  bool requires_grad() const;
  /// Sets whether ops that follow record this leaf: false makes it a constant for them.
  void set_requires_grad(bool required);
  /// False for the output of a recorded op, which keeps no gradient.
  bool is_leaf() const;
  /// The gradient accumulated so far, undefined before the first backward. It has the leaf's shape and
  /// grad_dtype().
  const Tensor& grad() const;
  /// The dtype of a leaf's gradient: float32 for a bfloat16 leaf, so that sums over micro-batches are not
  /// rounded to it, unless set_grad_dtype() said otherwise.
  DType grad_dtype() const;
  /// For a bfloat16 leaf: float32, or bfloat16, which takes half the memory and rounds the sum after each
  /// contribution. A gradient of another dtype, and its buffer, are dropped.
  void set_grad_dtype(DType dtype);
  /// Adds to the gradient of a leaf. Throws ShapeError for another shape.
  void accumulate_grad(const Tensor& grad);
  /// Begins the gradient of a leaf that has none: a tensor of its shape and the gradient's dtype, whose
  /// contents are undefined until the caller writes them. An op whose contribution is the first one thus
  /// computes it where it stays, without a copy; it returns the tensor, as one that it has added to (Grads).
  const Tensor& begin_grad();
  void zero_grad();
  /// From now on the gradient is accumulated in `buffer` (the leaf's shape, the gradient's dtype), so that
  /// its address is fixed. The first contribution after zero_grad() overwrites the contents.
  void keep_gradient_in(Tensor buffer);
  /// Likewise, in the buffer that `place` returns when the first contribution after zero_grad() comes; with
  /// an empty function, in any memory.
  void keep_gradient_in(std::function<Tensor()> place);
  /// Replaces the leaf's hook; an empty function removes it.
  void on_gradient(GradientHook hook);

  /// A leaf with the same value (shared storage) that requires no gradient.
  Variable detach() const;

  /// Adds the gradients of this variable with respect to all leaves to their grad(). The first form is for a
  /// scalar, with seed 1. Each node frees its saved tensors once it has run, so backward() can run only once
  /// per graph; a second time throws ValueError.
  void backward() const;
  void backward(const Tensor& seed) const;

 private:
  friend class Engine;
  friend std::vector<Variable> record_outputs(std::string_view, std::vector<Tensor>,
                                              const std::vector<Variable>&,
                                              std::function<std::vector<Tensor>(std::span<const Tensor>)>,
                                              std::vector<Variable>);
  struct State;
  std::shared_ptr<State> state_;
};

/// Backward pass from several outputs at once. Throws ShapeError for a seed of another shape or dtype.
void backward(std::span<const Variable> outputs, std::span<const Tensor> seeds);

}  // namespace moh
