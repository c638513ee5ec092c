#include "train/plan/planned_graph.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"

namespace moh {

struct PlannedNode {
  std::vector<PlannedVariable> inputs;
  std::size_t num_outputs = 0;
  std::uint64_t sequence = 0;
  PlannedBackward backward;
};

struct PlannedVariable::State {
  PlannedTensor value;
  bool requires_grad = false;
  PlannedTensor grad, grad_place;     // of a leaf
  std::shared_ptr<PlannedNode> node;  // of an op's output
  std::size_t output = 0;
};

PlannedVariable::PlannedVariable(PlannedTensor value, bool requires_grad)
    : state_(std::make_shared<State>()) {
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
}

const PlannedTensor& PlannedVariable::value() const {
  MOH_CHECK(defined(), "the variable is undefined");
  return state_->value;
}
bool PlannedVariable::requires_grad() const {
  return defined() && state_->requires_grad;
}
const PlannedTensor& PlannedVariable::grad() const {
  return state_->grad;
}
void PlannedVariable::zero_grad() const {
  state_->grad = PlannedTensor();
}
void PlannedVariable::keep_gradient_in(PlannedTensor place) const {
  state_->grad_place = std::move(place);
}

/// What may look into PlannedVariables: recording, and one backward pass.
class PlannedEngine {
 public:
  static std::vector<PlannedVariable> record(std::vector<PlannedTensor> outputs,
                                             const std::vector<PlannedVariable>& inputs,
                                             PlannedBackward backward, bool always);

  void run(std::span<const PlannedVariable> outputs, std::span<const PlannedTensor> seeds) {
    for (const PlannedVariable& output : outputs) reach(output.state_->node);
    for (std::size_t i = 0; i < outputs.size(); ++i) deliver(outputs[i], PlannedTensor(seeds[i]));
    std::ranges::sort(nodes_, [](const auto& a, const auto& b) { return a->sequence > b->sequence; });
    for (const std::shared_ptr<PlannedNode>& node : nodes_) visit(*node);
  }

 private:
  void reach(const std::shared_ptr<PlannedNode>& root) {
    std::vector<std::shared_ptr<PlannedNode>> pending = {root};
    while (!pending.empty()) {
      const std::shared_ptr<PlannedNode> node = std::move(pending.back());
      pending.pop_back();
      if (node == nullptr || !gradients_.try_emplace(node.get(), node->num_outputs).second) continue;
      nodes_.push_back(node);
      for (const PlannedVariable& input : node->inputs) {
        if (input.requires_grad()) pending.push_back(input.state_->node);
      }
    }
  }

  void visit(PlannedNode& node) {
    std::vector<PlannedTensor> dys = std::move(gradients_[&node]);
    const bool reached = std::ranges::any_of(dys, [](const PlannedTensor& dy) { return dy.defined(); });
    PlannedGrads grads;
    if (reached) grads = node.backward(dys);
    node.backward = nullptr;
    dys.clear();
    for (std::size_t i = 0; reached && i < node.inputs.size(); ++i) {
      if (node.inputs[i].requires_grad()) deliver(node.inputs[i], std::move(grads[i]));
    }
    node.inputs.clear();
  }

  void deliver(const PlannedVariable& to, PlannedTensor grad) {
    if (!grad.defined()) return;
    MOH_CHECK(grad.numel() == to.value().numel(), "a gradient has the size of its variable");
    if (to.state_->node == nullptr) return add_to_leaf(*to.state_, std::move(grad));
    MOH_CHECK(grad.dtype() == to.value().dtype(), "a gradient has the dtype of its variable");
    PlannedTensor& sum = gradients_[to.state_->node.get()][to.state_->output];
    if (!sum.defined()) {
      sum = std::move(grad);
    } else if (!sum.is_unique()) {
      sum = sum.like();
    }
  }

  static void add_to_leaf(PlannedVariable::State& leaf, PlannedTensor grad) {
    if (!leaf.requires_grad || leaf.grad.defined()) return;
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    const DType wanted = accumulate_dtype(leaf.value.dtype());
    if (leaf.grad_place.defined()) {
      leaf.grad = leaf.grad_place;
    } else if (grad.dtype() != wanted) {
      leaf.grad = grad.to(wanted);
    } else if (grad.is_unique()) {
      grad.set_purpose(MemoryPurpose::kGradient);
      leaf.grad = std::move(grad);
    } else {
      leaf.grad = grad.like();
    }
  }

  std::vector<std::shared_ptr<PlannedNode>> nodes_;
  std::unordered_map<PlannedNode*, std::vector<PlannedTensor>> gradients_;
};

std::vector<PlannedVariable> PlannedEngine::record(std::vector<PlannedTensor> outputs,
                                                   const std::vector<PlannedVariable>& inputs,
                                                   PlannedBackward backward, bool always) {
  static thread_local std::uint64_t next_sequence = 0;
  std::shared_ptr<PlannedNode> node;
  if (grad_enabled() && (always || std::ranges::any_of(inputs, &PlannedVariable::requires_grad))) {
    node = std::make_shared<PlannedNode>(
        PlannedNode{inputs, outputs.size(), ++next_sequence, std::move(backward)});
  }
  std::vector<PlannedVariable> variables;
  for (PlannedTensor& output : outputs) {
    PlannedVariable variable(std::move(output), node != nullptr);
    variable.state_->node = node;
    variable.state_->output = variables.size();
    variables.push_back(std::move(variable));
  }
  return variables;
}

std::vector<PlannedVariable> record_planned(std::vector<PlannedTensor> outputs,
                                            const std::vector<PlannedVariable>& inputs,
                                            PlannedBackward backward, bool always) {
  return PlannedEngine::record(std::move(outputs), inputs, std::move(backward), always);
}

PlannedVariable record_planned(PlannedTensor output, const std::vector<PlannedVariable>& inputs,
                               PlannedBackward backward) {
  std::vector<PlannedTensor> outputs;
  outputs.push_back(std::move(output));
  return record_planned(std::move(outputs), inputs, std::move(backward), false)[0];
}

void planned_backward(std::span<const PlannedVariable> outputs, std::span<const PlannedTensor> seeds) {
  PlannedEngine().run(outputs, seeds);
}

namespace {

PlannedGrads run_segment_again(const PlannedSegment& segment, const std::vector<PlannedTensor>& values,
                               std::span<const PlannedTensor> dys) {
  std::vector<PlannedVariable> leaves;
  for (const PlannedTensor& value : values) leaves.emplace_back(value, true);
  std::vector<PlannedVariable> reached;
  std::vector<PlannedTensor> seeds;
  {
    const GradMode recording(true);
    const std::vector<PlannedVariable> outputs = segment(leaves);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!dys[i].defined() || !outputs[i].requires_grad()) continue;
      reached.push_back(outputs[i]);
      seeds.push_back(dys[i]);
    }
  }
  planned_backward(reached, seeds);
  PlannedGrads grads;
  for (const PlannedVariable& leaf : leaves) grads.push_back(leaf.grad().to(leaf.value().dtype()));
  return grads;
}

}  // namespace

std::vector<PlannedVariable> planned_checkpoint(const PlannedSegment& segment,
                                                const std::vector<PlannedVariable>& inputs) {
  std::vector<PlannedTensor> values, outputs;
  for (const PlannedVariable& input : inputs) values.push_back(input.value());
  {
    const NoGrad no_grad;
    for (const PlannedVariable& output : segment(inputs)) outputs.push_back(output.value());
  }
  return record_planned(
      std::move(outputs), inputs,
      [segment, values](std::span<const PlannedTensor> dys) {
        return run_segment_again(segment, values, dys);
      },
      /*always=*/true);
}

}  // namespace moh
