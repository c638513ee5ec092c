#include "train/optim/adamw.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"

namespace moh {

bool is_matrix(const NamedParameter& parameter) {
  return parameter.variable.shape().rank() > 1;
}

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options,
             const std::function<bool(const NamedParameter&)>& decays)
    : options_(options) {
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  for (NamedParameter& parameter : parameters) {
    const Tensor& value = parameter.variable.value();
    const DType dtype = accumulate_dtype(value.dtype());
    Slot slot{parameter,
              zeros(value.shape(), dtype, value.device()),
              zeros(value.shape(), dtype, value.device()),
              {},
              decays(parameter) ? options_.weight_decay : 0.0,
              {}};
    if (value.dtype() == DType::kBFloat16) slot.master = value.to(DType::kFloat32);
    slots_.push_back(std::move(slot));
  }
  if (!slots_.empty() && slots_[0].parameter.variable.device() != kCpu) move_to_device();
}

void AdamW::move_to_device() {
  for (Slot& slot : slots_) {
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    slot.grad = empty_like(slot.exp_avg);
    slot.parameter.variable.keep_gradient_in(slot.grad);
  }
  on_device_ = std::make_unique<DeviceAdamW>(this->parameters(),
                                             AdamWBetas{options_.betas[0], options_.betas[1], options_.eps},
                                             options_.clip_grad_norm);
}

void AdamW::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.variable.zero_grad();
}

double AdamW::gradient_norm() const {
  std::vector<Tensor> grads;
  for (const Slot& slot : slots_) grads.push_back(slot.parameter.variable.grad());
  return grad_norm(grads);
}

std::vector<AdamWParameter> AdamW::parameters() const {
  std::vector<AdamWParameter> parameters;
  for (const Slot& slot : slots_) {
    const Variable& variable = slot.parameter.variable;
    Tensor grad = slot.grad.defined() ? slot.grad : variable.grad();
    if (!grad.defined()) grad = zeros_like(slot.exp_avg);
    parameters.push_back(
        {variable.value(), grad, slot.exp_avg, slot.exp_avg_sq, slot.master, slot.weight_decay});
  }
  return parameters;
}

void AdamW::step(double learning_rate, double grad_scale) {
  apply(learning_rate, grad_scale);
  ++steps_;
}

void AdamW::apply(double learning_rate, double grad_scale) {
  MOH_CHECK(on_device_ == nullptr, "on a GPU update() trains");
  adamw(parameters(), {.step = steps_ + 1,
                       .learning_rate = learning_rate,
                       .beta1 = options_.betas[0],
                       .beta2 = options_.betas[1],
                       .epsilon = options_.eps,
                       .grad_scale = grad_scale});
}

void AdamW::set_learning_rate(double learning_rate) {
  learning_rate_ = learning_rate;
  if (on_device_) on_device_->set_learning_rate(learning_rate);
}

Tensor AdamW::update(const Tensor& losses) {
  if (!on_device_) return update_on_cpu(losses);
  for (const Slot& slot : slots_) {
    if (!slot.parameter.variable.grad().defined()) slot.grad.fill(0.0);
  }
  return on_device_->update(losses);
}

Tensor AdamW::update_on_cpu(const Tensor& losses) {
  const auto each = losses.span<double>();
  const double loss = std::accumulate(each.begin(), each.end(), 0.0), norm = gradient_norm();
  const bool go = std::isfinite(loss) && std::isfinite(norm);
  const double limit = options_.clip_grad_norm;
  if (go) apply(learning_rate_, limit > 0 ? clip_factor(norm, limit) : 1.0);
  return tensor_of<double>({2}, {norm, go ? 1.0 : 0.0});
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

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (on_device_) on_device_->set_steps(steps);
}

}  // namespace moh
