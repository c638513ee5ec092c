#include "train/optim/adamw.h"

#include <unordered_map>
#include <utility>

#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"
#include "train/checkpoint/checkpoint.h"

namespace moh {

bool is_matrix(const NamedParameter& parameter) {
  return parameter.variable.shape().rank() > 1;
}

AdamW::AdamW(std::vector<NamedParameter> parameters, AdamWOptions options) : options_(std::move(options)) {
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  for (NamedParameter& parameter : parameters) {
    const Tensor& value = parameter.variable.value();
    const DType dtype = accumulate_dtype(value.dtype());
    Slot slot{parameter,
              zeros(value.shape(), dtype, value.device()),
              zeros(value.shape(), dtype, value.device()),
              {},
              options_.decays(parameter) ? options_.weight_decay : 0.0};
    if (value.dtype() == DType::kBFloat16) slot.master = value.to(DType::kFloat32);
    slots_.push_back(std::move(slot));
  }
}

void AdamW::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.variable.zero_grad();
}

double AdamW::gradient_norm() const {
  std::vector<Tensor> grads;
  for (const Slot& slot : slots_) grads.push_back(slot.parameter.variable.grad());
  return grad_norm(grads);
}

void AdamW::step(double learning_rate, double grad_scale) {
  ++steps_;
  std::vector<AdamWParameter> parameters;
  for (const Slot& slot : slots_) {
    const Variable& variable = slot.parameter.variable;
    const Tensor grad = variable.grad().defined() ? variable.grad() : zeros_like(slot.exp_avg);
    parameters.push_back(
        {variable.value(), grad, slot.exp_avg, slot.exp_avg_sq, slot.master, slot.weight_decay});
  }
  adamw(parameters, {.step = steps_,
                     .learning_rate = learning_rate,
                     .beta1 = options_.betas[0],
                     .beta2 = options_.betas[1],
                     .epsilon = options_.eps,
                     .grad_scale = grad_scale});
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> state;
  for (const Slot& slot : slots_) {
    const std::string& name = slot.parameter.name;
    state.push_back({"exp_avg." + name, slot.exp_avg});
    state.push_back({"exp_avg_sq." + name, slot.exp_avg_sq});
    if (slot.master.defined()) state.push_back({"master." + name, slot.master});
  }
  return state;
}

void AdamW::load_state(std::span<const NamedTensor> state, std::int64_t steps) {
  const std::vector<NamedTensor> own = this->state();
  std::vector<TensorSpec> expected;
  for (const NamedTensor& entry : own)
    expected.push_back({entry.name, entry.tensor.shape(), entry.tensor.dtype()});
  check_matches("optimizer state", expected, state);
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const NamedTensor& entry : state) by_name[entry.name] = &entry.tensor;
  for (const NamedTensor& entry : own) entry.tensor.copy_from(*by_name.at(entry.name));
  steps_ = steps;
}

}  // namespace moh
