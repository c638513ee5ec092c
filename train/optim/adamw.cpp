#include "train/optim/adamw.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"

namespace moh {

namespace {

std::vector<ParameterUse> uses_of(const std::vector<NamedParameter>& parameters, double weight_decay,
                                  const std::function<bool(const NamedParameter&)>& decays) {
  std::vector<ParameterUse> uses;
  for (const NamedParameter& p : parameters) uses.push_back({decays(p) ? weight_decay : 0.0});
  return uses;
}

}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters, const std::vector<ParameterUse>& uses,
             const AdamWOptions& options)
    : options_(options) {
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  std::vector<AdamWParameter> states;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NamedParameter& parameter = parameters[i];
    if (uses[i].frozen) {
      frozen_.push_back({parameter.name, parameter.variable.value()});
      continue;
    }
    const Tensor& value = parameter.variable.value();
    const DType dtype = accumulate_dtype(value.dtype());
    AdamWParameter tensors{value,
                           {},
                           empty(value.shape(), dtype, value.device()),
                           empty(value.shape(), dtype, value.device()),
                           {},
                           uses[i].weight_decay,
                           uses[i].learning_rate_scale};
    if (value.dtype() == DType::kBFloat16) tensors.master = empty(value.shape(), dtype, value.device());
    states.push_back(tensors);
    slots_.push_back({std::move(parameter), std::move(tensors)});
  }
  reset_adamw_state(states);
  if (!slots_.empty() && slots_[0].parameter.variable.device() != kCpu) move_to_device();
}

AdamW::AdamW(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
             const std::function<bool(const NamedParameter&)>& decays)
    : AdamW(parameters, uses_of(parameters, options.weight_decay, decays), options) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options)
    : AdamW(model.parameters(), parameter_uses(model, options.groups, options.weight_decay), options) {
  freeze(model, parameter_uses(model, options.groups, options.weight_decay));
}

void AdamW::move_to_device() {
  for (auto& [parameter, tensors] : slots_) {
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    tensors.grad = empty_like(tensors.exp_avg);
    parameter.variable.keep_gradient_in(tensors.grad);
  }
  on_device_ = std::make_unique<DeviceAdamW>(this->parameters(),
                                             AdamWBetas{options_.betas[0], options_.betas[1], options_.eps},
                                             options_.clip_grad_norm);
}

void AdamW::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.variable.zero_grad();
}

std::vector<AdamWParameter> AdamW::parameters() const {
  std::vector<AdamWParameter> parameters;
  for (const auto& [parameter, tensors] : slots_) {
    parameters.push_back(tensors);
    Tensor& grad = parameters.back().grad;
    if (!grad.defined()) grad = parameter.variable.grad();
    if (!grad.defined()) grad = zeros_like(tensors.exp_avg);
  }
  return parameters;
}

void AdamW::set_learning_rate(double learning_rate) {
  learning_rate_ = learning_rate;
  if (on_device_) on_device_->set_learning_rate(learning_rate);
}

Tensor AdamW::update(const Tensor& losses) {
  if (!on_device_) return update_on_cpu(losses);
  for (const Slot& slot : slots_) {
    if (!slot.parameter.variable.grad().defined()) slot.tensors.grad.fill(0.0);
  }
  return on_device_->update(losses);
}

Tensor AdamW::update_on_cpu(const Tensor& losses) {
  const auto each = losses.span<double>();
  std::vector<Tensor> grads;
  for (const Slot& slot : slots_) grads.push_back(slot.parameter.variable.grad());
  const double loss = std::accumulate(each.begin(), each.end(), 0.0), norm = grad_norm(grads);
  const bool go = std::isfinite(loss) && std::isfinite(norm);
  const double limit = options_.clip_grad_norm;
  if (go) {
    adamw(parameters(), {.step = steps_ + 1,
                         .learning_rate = learning_rate_,
                         .beta1 = options_.betas[0],
                         .beta2 = options_.betas[1],
                         .epsilon = options_.eps,
                         .grad_scale = limit > 0 ? clip_factor(norm, limit) : 1.0});
  }
  return tensor_of<double>({2}, {norm, go ? 1.0 : 0.0});
}

std::vector<NamedTensor> AdamW::weights() const {
  std::vector<NamedTensor> weights;
  for (const auto& [parameter, tensors] : slots_)
    weights.push_back({parameter.name, tensors.master.defined() ? tensors.master : tensors.value});
  return weights;
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> state;
  for (const auto& [parameter, tensors] : slots_) {
    state.push_back({"exp_avg." + parameter.name, tensors.exp_avg});
    state.push_back({"exp_avg_sq." + parameter.name, tensors.exp_avg_sq});
    if (tensors.master.defined()) state.push_back({"master." + parameter.name, tensors.master});
  }
  return state;
}

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (on_device_) on_device_->set_steps(steps);
}

}  // namespace moh
