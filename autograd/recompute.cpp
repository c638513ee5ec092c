#include "autograd/recompute.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "autograd/dry_reads.h"

namespace moh {

namespace {

thread_local bool in_recomputation = false;
thread_local bool in_first_run = false;

/// While it lives, what runs in this thread has run before.
class SecondRunScope {
 public:
  SecondRunScope() : outer_(std::exchange(in_recomputation, true)) {}
  ~SecondRunScope() { in_recomputation = outer_; }
  SecondRunScope(const SecondRunScope&) = delete;
  SecondRunScope& operator=(const SecondRunScope&) = delete;

 private:
  bool outer_;
};

/// Marks the second run, and rewinds the generator to its state at the start of the first run.
class Recomputation {
 public:
  Recomputation(Generator* generator, std::uint64_t state)
      : generator_(generator), resume_at_(generator ? generator->state() : 0) {
    if (generator_) generator_->restore(state);
  }
  ~Recomputation() {
    if (generator_) generator_->restore(resume_at_);
  }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  Generator* generator_;
  std::uint64_t resume_at_;
  SecondRunScope second_run_;
  GradMode recording_{true};
};

/// Marks the first run of a segment whose second run will be recorded.
class FirstRun {
 public:
  explicit FirstRun(bool recorded_later) : scope_(recorded_later) {}
  /// The leaves that require a gradient and that ops of the segment read, without its inputs.
  std::vector<Variable> leaves_besides(const std::vector<Variable>& inputs) const {
    return met_.leaves_besides(inputs);
  }

 private:
  FirstRunScope scope_;
  UnrecordedGradients met_;
};

/// Leaves with the inputs' values, in which the backward pass of the segment collects the inputs' gradients.
std::vector<Variable> as_leaves(const std::vector<Tensor>& values, const std::vector<bool>& needs_grad) {
  std::vector<Variable> leaves;
  for (std::size_t i = 0; i < values.size(); ++i) {
    leaves.push_back(values[i].defined() ? Variable(values[i], needs_grad[i]) : Variable());
  }
  return leaves;
}

Grads run_again(const Segment& segment, const std::vector<Tensor>& values,
                const std::vector<bool>& needs_grad, Generator* generator, std::uint64_t state,
                std::span<const Tensor> dys) {
  std::vector<Variable> leaves = as_leaves(values, needs_grad);
  std::vector<Variable> reached;
  std::vector<Tensor> seeds;
  {
    const Recomputation second_run(generator, state);
    const std::vector<Variable> outputs = segment(leaves);
    MOH_CHECK(outputs.size() == dys.size(), "recompute: the segment returned another number of outputs");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!dys[i].defined() || !outputs[i].requires_grad()) continue;
      reached.push_back(outputs[i]);
      seeds.push_back(dys[i]);
    }
  }
  backward(reached, seeds);
  Grads grads;
  for (const Variable& leaf : leaves) {
    // A bfloat16 leaf accumulates its gradient in float32; the outer graph expects the input's dtype.
    const bool has_grad = leaf.requires_grad() && leaf.grad().defined();
    grads.push_back(has_grad ? leaf.grad().to(leaf.dtype()) : Tensor());
  }
  return grads;
}

}  // namespace

std::vector<Variable> recompute(const Segment& segment, const std::vector<Variable>& inputs,
                                Generator* generator) {
  const std::uint64_t state = generator ? generator->state() : 0;
  std::vector<Tensor> values;
  std::vector<bool> needs_grad;
  for (const Variable& input : inputs) {
    values.push_back(input.defined() ? input.value() : Tensor());
    needs_grad.push_back(input.requires_grad());
  }
  std::vector<Tensor> outputs;
  std::vector<Variable> captured;
  {
    const FirstRun first_run(backward_follows());
    for (const Variable& output : segment(inputs)) outputs.push_back(output.value());
    captured = first_run.leaves_besides(inputs);  // in whose place the second run has leaves of its own
  }
  return record_outputs(
      "recompute", std::move(outputs), inputs,
      [=](std::span<const Tensor> dys) {
        return run_again(segment, values, needs_grad, generator, state, dys);
      },
      std::move(captured));
}

void recompute_when_read(const Variable& y, std::function<Variable()> again) {
  if (!grad_enabled() || !y.requires_grad()) return;
  recompute_saved(y.value(), [again = std::move(again)] { return again().value(); });
  read_in_dry_backward(y.value());
}

void recompute_saved(const Tensor& saved, std::function<Tensor()> again) {
  saved.release_until_read([again = std::move(again)] {
    const NoGrad no_grad;
    const SecondRunScope second_run;
    return again();
  });
}

bool recomputing() {
  return in_recomputation;
}

bool backward_follows() {
  return grad_enabled() || in_first_run;
}

FirstRunScope::FirstRunScope(bool recorded_later) : outer_(in_first_run) {
  in_first_run = recorded_later;
}

FirstRunScope::~FirstRunScope() {
  in_first_run = outer_;
}

}  // namespace moh
