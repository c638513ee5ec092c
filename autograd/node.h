#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// Gradients of an op's inputs, in their order, each in the input's dtype or its accumulate_dtype();
/// undefined for inputs that need none. An op may instead begin a leaf's gradient, or add to it in place, and
/// return that tensor (autograd/gradient_target.h).
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

/// record() for an op with several outputs. `captured` are the leaves that require a gradient and are not
/// among the inputs, but get contributions from backward passes within `backward`: the op is recorded for
/// their sake, too, and their hooks wait for it.
std::vector<Variable> record_outputs(std::string_view name, std::vector<Tensor> outputs,
                                     const std::vector<Variable>& inputs, MultiBackwardFn backward,
                                     std::vector<Variable> captured = {});

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

/// Notes the leaves that require a gradient and are inputs of ops that run in this thread during its
/// lifetime, while recording is off.
class UnrecordedGradients {
 public:
  UnrecordedGradients();
  ~UnrecordedGradients();
  UnrecordedGradients(const UnrecordedGradients&) = delete;
  UnrecordedGradients& operator=(const UnrecordedGradients&) = delete;

  /// The leaves that are not among `inputs`, each once.
  std::vector<Variable> leaves_besides(std::span<const Variable> inputs) const;

 private:
  friend class Engine;
  void add(const Variable& leaf);

  UnrecordedGradients* outer_;
  std::vector<Variable> leaves_;
};

/// Names of the ops in the graph of `output`, without repetition, sorted.
std::vector<std::string> graph_op_names(const Variable& output);

}  // namespace moh
