#pragma once

#include <cstddef>

#include "autograd/variable.h"

namespace moh {

/// Where an op writes its contribution to the gradient of an input, kept for its backward pass. The first
/// contribution to a leaf's gradient is written where the gradient stays (Variable::begin_grad()), be it a
/// tensor of its own or a part of a buffer, without a temporary of the weight's size and a copy.
class GradientTarget {
 public:
  /// Keeps a leaf, whose gradient it may begin, and the value alone of any other variable, not its graph. An
  /// undefined one needs no gradient.
  explicit GradientTarget(const Variable& of);

  const Tensor& value() const { return of_.value(); }
  bool needed() const { return needed_; }

  struct Sum {
    Tensor tensor;
    bool adds = false;  ///< to what it holds; else the op overwrites it
  };
  /// For an op that can add, and round: the leaf's gradient, in the dtype of that, or a new tensor in the
  /// accumulation dtype. Only if needed.
  Sum sum() const;
  /// For an op that only overwrites, in the accumulation dtype: the leaf's gradient if that is its dtype and
  /// this contribution the first, else a new tensor. Only if needed.
  Tensor contribution() const;

 private:
  Tensor begun() const { return Variable(of_).begin_grad(); }
  Tensor fresh() const;

  Variable of_;
  bool needed_;
};

/// In the backward pass of an op, for one that can add and round: the sum so far of the gradients that other
/// ops have for input number `input`, the output of an op. It may add its own in place, and return that
/// tensor. Undefined if it is the first, if the input is a leaf, or if others hold the tensor.
Tensor gradient_sum_of_input(std::size_t input);

/// Likewise: whether these inputs are one variable, whose gradient the op may give once.
bool are_one_input(std::size_t a, std::size_t b);

}  // namespace moh
