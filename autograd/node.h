#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// Gradients of an op's inputs, in their order, each in the input's dtype or its accumulate_dtype();
/// undefined for inputs that need none. An op may instead add to a leaf's existing gradient in place and
/// return that tensor.
using Grads = std::vector<Tensor>;
/// Computes Grads from the gradient of the op's only output.
using BackwardFn = std::function<Grads(const Tensor& dy)>;
/// Computes Grads from the gradients of several outputs; undefined for those that the loss does not depend
/// on.
using MultiBackwardFn = std::function<Grads(std::span<const Tensor> dys)>;

/// Wraps an op's result in a Variable and, when an input requires a gradient and grad_enabled(), records the
/// backward pass for `inputs` (undefined inputs are allowed and get no gradient). `backward` owns the tensors
/// that it captured and is destroyed right after its call. `name` names the op in messages, profiles and the
/// gradient-check coverage test.
Variable record(std::string_view name, Tensor output, const std::vector<Variable>& inputs,
                BackwardFn backward);

/// record() for an op with several outputs. With `always`, a node is recorded even if no input requires a
/// gradient: for ops that capture parameters instead of taking them as inputs.
std::vector<Variable> record_outputs(std::string_view name, std::vector<Tensor> outputs,
                                     const std::vector<Variable>& inputs, MultiBackwardFn backward,
                                     bool always = false);

/// Whether ops are recorded in this thread (as torch.is_grad_enabled()).
bool grad_enabled();

/// Switches recording off (or on) in this thread for the lifetime of the object.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Switches recording off in this thread for the lifetime of the object: evaluation, generation.
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/// Notes whether ops that run in this thread during its lifetime, while recording is off, have inputs that
/// require a gradient.
class UnrecordedGradients {
 public:
  UnrecordedGradients();
  ~UnrecordedGradients();
  UnrecordedGradients(const UnrecordedGradients&) = delete;
  UnrecordedGradients& operator=(const UnrecordedGradients&) = delete;

  bool any() const;

 private:
  bool outer_;
};

/// Names of the ops in the graph of `output`, without repetition, sorted.
std::vector<std::string> graph_op_names(const Variable& output);

}  // namespace moh
