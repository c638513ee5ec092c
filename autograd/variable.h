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

/// A tensor in a computation whose gradient may be asked for. A handle: copies refer to the same value and
/// gradient. A Variable is a leaf (a parameter or an input) or the output of a recorded op.
class Variable {
 public:
  /// Called with the leaf after a backward pass has added its last contribution to the leaf's gradient, while
  /// the rest of the pass still runs.
  using GradientHook = std::function<void(Variable&)>;

  /// Undefined: only defined() may be asked. Stands for an absent optional operand.
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
  /// Makes a leaf a constant for the ops that come, or lets them ask for its gradient again.
  void set_requires_grad(bool required);
  /// Whether an op produced this variable (and its gradient is not kept).
  bool is_leaf() const;
  /// The gradient accumulated so far, undefined before the first backward. It has the leaf's shape; a
  /// bfloat16 leaf has a float32 gradient, so that accumulation over micro-batches loses nothing.
  const Tensor& grad() const;
  /// Adds to the gradient of a leaf.
  void accumulate_grad(const Tensor& grad);
  void zero_grad();
  /// From now on the gradient is gathered in `buffer`, of the leaf's shape and of the gradient's dtype, so
  /// that its address stays. The first contribution after zero_grad() overwrites what is there.
  void keep_gradient_in(Tensor buffer);
  /// Replaces the leaf's hook; an empty function removes it.
  void on_gradient(GradientHook hook);

  /// The same value, cut off from the graph.
  Variable detach() const;

  /// Gradients of this variable with respect to all leaves are added to theirs. The first form is for a
  /// scalar and seeds with 1. What a node saved is released as the pass leaves it, so a graph can be walked
  /// once.
  void backward() const;
  void backward(const Tensor& seed) const;

 private:
  friend class Engine;
  friend std::vector<Variable> record_outputs(std::string_view, std::vector<Tensor>,
                                              const std::vector<Variable>&,
                                              std::function<std::vector<Tensor>(std::span<const Tensor>)>,
                                              bool);
  struct State;
  std::shared_ptr<State> state_;
};

/// Walks the graph back from several outputs at once; seeds have the outputs' shapes and dtypes.
void backward(std::span<const Variable> outputs, std::span<const Tensor> seeds);

}  // namespace moh
