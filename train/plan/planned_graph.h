#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "train/plan/planned_tensor.h"

namespace moh {

/// A Variable (autograd/variable.h) that holds a PlannedTensor: what follows keeps and drops memory at the
/// same points as the real graph does. In particular an op's node keeps its inputs, and what its closure
/// captured, until the backward pass has left it.
class PlannedVariable {
 public:
  PlannedVariable() = default;
  explicit PlannedVariable(PlannedTensor value, bool requires_grad = false);

  bool defined() const { return state_ != nullptr; }
  const PlannedTensor& value() const;
  bool requires_grad() const;
  const PlannedTensor& grad() const;
  void zero_grad() const;
  /// The gradient's own place, as Variable::keep_gradient_in.
  void keep_gradient_in(PlannedTensor place) const;

 private:
  friend class PlannedEngine;
  struct State;
  std::shared_ptr<State> state_;
};

using PlannedGrads = std::vector<PlannedTensor>;
using PlannedBackward = std::function<PlannedGrads(std::span<const PlannedTensor> dys)>;

/// record_outputs of autograd/node.h; grad_enabled() decides there as here.
std::vector<PlannedVariable> record_planned(std::vector<PlannedTensor> outputs,
                                            const std::vector<PlannedVariable>& inputs,
                                            PlannedBackward backward, bool always = false);
PlannedVariable record_planned(PlannedTensor output, const std::vector<PlannedVariable>& inputs,
                               PlannedBackward backward);

/// The backward pass of autograd/variable.h.
void planned_backward(std::span<const PlannedVariable> outputs, std::span<const PlannedTensor> seeds);

/// checkpoint of autograd/checkpoint.h.
using PlannedSegment = std::function<std::vector<PlannedVariable>(const std::vector<PlannedVariable>&)>;
std::vector<PlannedVariable> planned_checkpoint(const PlannedSegment& segment,
                                                const std::vector<PlannedVariable>& inputs);

}  // namespace moh
