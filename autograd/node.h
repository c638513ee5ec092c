#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// Gradients of an op's inputs, in their order, each in the input's dtype or that which it was summed in; an
/// undefined tensor where an input needs none. An op may add its part to what a leaf has, and return that.
using Grads = std::vector<Tensor>;
/// Computes Grads from the gradient of the op's only output.
using BackwardFn = std::function<Grads(const Tensor& dy)>;
/// Computes Grads from the gradients of several outputs; undefined where nothing flowed back.
using MultiBackwardFn = std::function<Grads(std::span<const Tensor> dys)>;

/// Makes a Variable of an op's result and, when an input requires a gradient and gradients are on, records
/// how to get the gradients of `inputs` (undefined ones are allowed and get none). `backward` owns what it
/// captured; it is dropped right after it ran. `name` names the op in messages and in the gradient-check
/// coverage test.
Variable record(std::string_view name, Tensor output, const std::vector<Variable>& inputs,
                BackwardFn backward);

/// record for an op with several outputs. With `always`, a node is recorded although no input requires a
/// gradient: for ops that reach parameters through what they captured.
std::vector<Variable> record_outputs(std::string_view name, std::vector<Tensor> outputs,
                                     const std::vector<Variable>& inputs, MultiBackwardFn backward,
                                     bool always = false);

/// Whether ops are recorded in this thread.
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

/// Nothing is recorded while one of these lives: evaluation, generation.
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/// Names of the ops that lead to `output`, each once, sorted.
std::vector<std::string> graph_op_names(const Variable& output);

}  // namespace moh
