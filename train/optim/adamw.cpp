#include "train/optim/adamw.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/profile.h"
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

/// The sum of the losses of an update's micro-batches.
double sum_of(const Tensor& losses) {
  const auto each = losses.span<double>();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

/// Moments and master copy of `value`, the elements that are updated here.
void add_state(AdamWParameter& tensors, const Tensor& value) {
  const DType dtype = accumulate_dtype(value.dtype());
  tensors.value = value;
  tensors.exp_avg = empty(value.shape(), dtype, value.device());
  tensors.exp_avg_sq = empty(value.shape(), dtype, value.device());
  if (value.dtype() == DType::kBFloat16) tensors.master = empty(value.shape(), dtype, value.device());
}

}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters, const std::vector<ParameterUse>& uses,
             const AdamWOptions& options, Communicator& processes, std::size_t bucket_bytes)
    : options_(options) {
  MOH_CHECK(!options.fused_update || (options.clip_grad_norm == 0 && processes.alone()),
            "a fused update clips nothing, and is of one process");
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  std::vector<BucketItem> items;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NamedParameter& parameter = parameters[i];
    if (uses[i].frozen) {
      frozen_.push_back({parameter.name, parameter.variable.value()});
      continue;
    }
    AdamWParameter tensors{.value = parameter.variable.value(),
                           .weight_decay = uses[i].weight_decay,
                           .learning_rate_scale = uses[i].learning_rate_scale};
    items.push_back({tensors.value.numel(), tensors.value.dtype()});
    if (tensors.value.dtype() == DType::kBFloat16) {
      tensors.narrow_grad = options.gradients == Precision::kBFloat16;
      parameter.variable.set_grad_dtype(dtype_of(options.gradients));
    }
    slots_.push_back({.parameter = std::move(parameter), .tensors = std::move(tensors)});
  }
  if (!processes.alone()) shards_ = std::make_shared<const ParameterShards>(items, bucket_bytes, processes);
  std::vector<AdamWParameter> states;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    add_state(slots_[i].tensors,
              shards_ ? shards_->own_part(i, slots_[i].tensors.value) : slots_[i].tensors.value);
    states.push_back(slots_[i].tensors);
  }
  reset_adamw_state(states);
  if (options.fused_update) update_within_backward();
}

AdamW::~AdamW() {
  if (!options_.fused_update) return;
  for (Slot& slot : slots_) {
    if (slot.parameter.variable.requires_grad()) slot.parameter.variable.on_gradient({});
  }
}

AdamW::AdamW(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
             const std::function<bool(const NamedParameter&)>& decays)
    : AdamW(parameters, uses_of(parameters, options.weight_decay, decays), options) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options) : AdamW(model, options, one_process(), 0) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options, Communicator& processes,
             std::size_t bucket_bytes)
    : AdamW(model.parameters(), parameter_uses(model, options.groups, options.weight_decay), options,
            processes, bucket_bytes) {
  freeze(model, parameter_uses(model, options.groups, options.weight_decay));
}

bool AdamW::is_on_device() const {
  // Not of the variable, whose value the other processes may still have to send.
  return !slots_.empty() && slots_[0].tensors.exp_avg.device() != kCpu;
}

void AdamW::keep_gradients() {
  if (on_device_ || !is_on_device()) return;
  std::vector<AdamWParameter> all;
  for (Slot& slot : slots_) {
    Variable& variable = slot.parameter.variable;
    all.push_back(slot.tensors);
    if (options_.fused_update) continue;
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    slot.tensors.grad = variable.grad().defined()
                            ? variable.grad()
                            : empty(variable.shape(), variable.grad_dtype(), slot.tensors.exp_avg.device());
    variable.keep_gradient_in(slot.tensors.grad);
  }
  if (!options_.fused_update) all = parameters();
  on_device_ = std::make_unique<DeviceAdamW>(
      all, AdamWBetas{options_.betas[0], options_.betas[1], options_.eps}, options_.clip_grad_norm);
  on_device_->set_learning_rate(learning_rate_);
  on_device_->set_limits(limits_.loss, limits_.grad_norm);
  on_device_->set_steps(steps_);
}

void AdamW::update_within_backward() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].parameter.variable.on_gradient([this, i](Variable& leaf) {
      const ProfilePhaseScope phase(ProfilePhase::kOptimizer);
      update_one(i, leaf.grad());
      leaf.zero_grad();
    });
  }
}

void AdamW::zero_grad() {
  keep_gradients();
  for (Slot& slot : slots_) slot.parameter.variable.zero_grad();
}

std::vector<AdamWParameter> AdamW::parameters() const {
  std::vector<AdamWParameter> parameters;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    parameters.push_back(slots_[i].tensors);
    Tensor& grad = parameters.back().grad;
    if (!grad.defined()) grad = slots_[i].parameter.variable.grad();
    if (!grad.defined())
      grad = zeros(parameters.back().value.shape(), slots_[i].parameter.variable.grad_dtype());
    else if (shards_)
      grad = shards_->own_part(i, grad);
  }
  return parameters;
}

void AdamW::set_learning_rate(double learning_rate) {
  learning_rate_ = learning_rate;
  if (on_device_) on_device_->set_learning_rate(learning_rate);
}

void AdamW::set_limits(const UpdateLimits& limits) {
  limits_ = limits;
  if (on_device_) on_device_->set_limits(limits.loss, limits.grad_norm);
}

Tensor AdamW::update(const Tensor& losses) {
  if (options_.fused_update) return finish_update();
  keep_gradients();
  if (!on_device_) return update_on_cpu(losses);
  for (const Slot& slot : slots_) {
    if (!slot.parameter.variable.grad().defined()) slot.tensors.grad.fill(0.0);
  }
  if (!shards_) return on_device_->update(losses);
  return on_device_->update(losses, [this](const Tensor& own) { return squares_of_all(own); });
}

AdamWStep AdamW::step(double grad_scale) const {
  return {.step = steps_ + 1,
          .learning_rate = learning_rate_,
          .beta1 = options_.betas[0],
          .beta2 = options_.betas[1],
          .epsilon = options_.eps,
          .grad_scale = grad_scale};
}

Tensor AdamW::update_on_cpu(const Tensor& losses) {
  const std::vector<AdamWParameter> all = parameters();
  std::vector<Tensor> grads;
  for (const AdamWParameter& parameter : all) grads.push_back(parameter.grad);
  const double loss = sum_of(losses), norm = norm_of_all(grad_norm(grads));
  finish_gathering();  // what no pass has read
  const bool go =
      std::isfinite(loss) && std::isfinite(norm) && loss <= limits_.loss && norm <= limits_.grad_norm;
  const double limit = options_.clip_grad_norm;
  if (go) {
    adamw(all, step(limit > 0 ? clip_factor(norm, limit) : 1.0));
    leave_values_to_gather();
  }
  return tensor_of<double>({2}, {norm, go ? 1.0 : 0.0});
}

void AdamW::begin_update(const Tensor& losses) {
  MOH_CHECK(options_.fused_update, "other updates have no beginning");
  for (Slot& slot : slots_) slot.updated = false;
  if (on_device_) return on_device_->begin(losses);
  const double loss = sum_of(losses);
  going_ = std::isfinite(loss) && loss <= limits_.loss;
}

void AdamW::update_one(std::size_t number, const Tensor& grad) {
  Slot& slot = slots_[number];
  MOH_CHECK(!std::exchange(slot.updated, true), "a fused update has one backward pass");
  if (on_device_) return on_device_->update_one(number, grad);
  slot.squares = square_sums(grad);
  going_ = going_ && std::isfinite(norm_of({&slot.squares, 1}));
  if (!going_) return;
  AdamWParameter parameter = slot.tensors;
  parameter.grad = grad;
  adamw({&parameter, 1}, step(1.0));
}

/// Updates what the backward pass has not reached, with zeros for gradients.
Tensor AdamW::finish_update() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].updated) continue;
    const Variable& parameter = slots_[i].parameter.variable;
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    update_one(i, zeros(parameter.shape(), parameter.grad_dtype(), parameter.device()));
  }
  if (on_device_) return on_device_->finish();
  std::vector<SquareSums> squares;
  for (Slot& slot : slots_) squares.push_back(std::move(slot.squares));
  return tensor_of<double>({2}, {norm_of(squares), going_ ? 1.0 : 0.0});
}

/// Those of the gradients of all processes' elements, on the device.
Tensor AdamW::squares_of_all(const Tensor& own) const {
  const Communicator& processes = shards_->processes();
  const Tensor rows = empty({processes.size(), own.numel()}, own.dtype(), own.device());
  processes.on_device().all_gather_in_line(own, rows);
  return rows.reshape({rows.numel()});
}

/// The norm of the gradients of all processes' elements: equal in all.
double AdamW::norm_of_all(double own) const {
  if (!shards_) return own;
  const Tensor squares = tensor_of<double>({1}, {own * own});
  shards_->processes().all_reduce(squares, ReduceOp::kSum);
  return std::sqrt(squares.item());
}

/// The new values are on their way from now on; until a parameter is read, nobody waits for them.
void AdamW::leave_values_to_gather() {
  if (!shards_) return;
  forget_gathering();
  std::vector<Tensor> own;
  std::vector<Variable> leaves;
  for (const Slot& slot : slots_) {
    own.push_back(slot.tensors.value);
    leaves.push_back(slot.parameter.variable);
  }
  gather_.emplace(shards_, own, leaves);
}

void AdamW::forget_gathering() {
  if (gather_) gather_->forget();
  gather_.reset();
}

void AdamW::start_gathering() const {
  if (gather_) gather_->start();
}

void AdamW::finish_gathering() const {
  if (gather_) gather_->finish();
}

std::vector<NamedTensor> AdamW::gathered(const std::vector<NamedTensor>& parts) const {
  std::vector<Tensor> own, whole;
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensor& value = slots_[i].parameter.variable.value();
    own.push_back(parts[i].tensor);
    whole.push_back(empty(value.shape(), own.back().dtype(), value.device()));
    named.push_back({parts[i].name, whole.back()});
  }
  shards_->gather(own, whole);
  return named;
}

std::vector<NamedTensor> AdamW::weights() const {
  std::vector<NamedTensor> weights;
  for (const Slot& slot : slots_) {
    const AdamWParameter& tensors = slot.tensors;
    weights.push_back({slot.parameter.name, tensors.master.defined() ? tensors.master : tensors.value});
  }
  return weights;
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> state;
  for (TensorPart& part : state_parts()) state.push_back({std::move(part.name), std::move(part.tensor)});
  return state;
}

std::vector<TensorPart> AdamW::state_parts() const {
  std::vector<TensorPart> state;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const AdamWParameter& tensors = slots_[i].tensors;
    const auto add = [&](const char* kind, const Tensor& tensor) {
      state.push_back(part_of(i, {kind + slots_[i].parameter.name, tensor}));
    };
    add("exp_avg.", tensors.exp_avg);
    add("exp_avg_sq.", tensors.exp_avg_sq);
    if (tensors.master.defined()) add("master.", tensors.master);
  }
  return state;
}

TensorPart AdamW::part_of(std::size_t slot, const NamedTensor& tensor) const {
  return {tensor.name, tensor.tensor, shards_ ? shards_->own(slot).begin : 0,
          slots_[slot].parameter.variable.numel()};
}

std::vector<TensorPart> AdamW::parts_of(const std::vector<NamedTensor>& parts) const {
  std::vector<TensorPart> of_all;
  for (std::size_t i = 0; i < slots_.size(); ++i) of_all.push_back(part_of(i, parts[i]));
  return of_all;
}

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (on_device_) on_device_->set_steps(steps);
}

}  // namespace moh
