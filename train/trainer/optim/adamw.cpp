#include "train/trainer/optim/adamw.h"

#include <span>
#include <utility>

#include "core/error.h"
#include "ops/optim/adafactor.h"

namespace moh {

namespace {

std::vector<ParameterUse> uses_of(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
                                  const std::function<bool(const NamedParameter&)>& decays) {
  std::vector<ParameterUse> uses;
  for (const NamedParameter& p : parameters) {
    uses.push_back({.weight_decay = decays(p) ? options.weight_decay : 0.0,
                    .orthogonal = options.rule == UpdateRule::kMuon && p.variable.shape().rank() == 2});
  }
  return uses;
}

std::vector<ParameterUse> uses_of(const Model& model, const AdamWOptions& options) {
  std::vector<ParameterUse> uses = parameter_uses(model, options.groups, options.weight_decay);
  if (options.rule == UpdateRule::kMuon) mark_hidden_matrices(model, uses);
  return uses;
}

/// Moments and master copy of `value`, the elements that are updated here.
void add_state(AdamWParameter& tensors, const Tensor& value, UpdateRule rule) {
  const DType dtype = accumulate_dtype(value.dtype());
  const auto of_shape = [&](const Shape& shape) { return empty(shape, dtype, value.device()); };
  tensors.value = value;
  if (value.dtype() == DType::kBFloat16) tensors.master = of_shape(value.shape());
  if (rule == UpdateRule::kAdafactor) {
    const AdafactorShapes shapes = adafactor_shapes(value.shape());
    tensors.exp_avg_sq = of_shape(shapes.exp_avg_sq);
    tensors.exp_avg_sq_row = of_shape(shapes.exp_avg_sq_row);
    return;
  }
  tensors.exp_avg = of_shape(value.shape());
  if (rule != UpdateRule::kLion && !tensors.orthogonal) tensors.exp_avg_sq = of_shape(value.shape());
  if (value.numel() == 0) tensors.orthogonal = false;  // another process's matrix
}

/// Shards of the parameters that are not frozen.
std::shared_ptr<const ParameterShards> make_shards(const std::vector<NamedParameter>& parameters,
                                                   const std::vector<ParameterUse>& uses, UpdateRule rule,
                                                   Communicator& processes, std::size_t bucket_bytes) {
  std::vector<BucketItem> items;
  Tensor before;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (uses[i].frozen) continue;
    const Tensor& value = parameters[i].variable.value();
    const bool follows = before.defined() && before.is_followed_by(value);
    items.push_back({value.numel(), value.dtype(), follows, takes_whole_matrices(rule)});
    before = value;
  }
  return std::make_shared<const ParameterShards>(items, bucket_bytes, processes);
}

}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters, const std::vector<ParameterUse>& uses,
             const AdamWOptions& options, std::shared_ptr<const ParameterShards> shards,
             const std::vector<Tensor>& own)
    : shards_(std::move(shards)), options_(options) {
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NamedParameter& parameter = parameters[i];
    if (uses[i].frozen) {
      frozen_.push_back({parameter.name, parameter.variable.value()});
      continue;
    }
    AdamWParameter tensors{.value = parameter.variable.value(),
                           .weight_decay = uses[i].weight_decay,
                           .learning_rate_scale = uses[i].learning_rate_scale,
                           .orthogonal = uses[i].orthogonal};
    if (tensors.value.dtype() == DType::kBFloat16) {
      tensors.narrow_grad = options.gradients == Precision::kBFloat16;
      parameter.variable.set_grad_dtype(dtype_of(options.gradients));
    }
    const bool follows = shards_->items()[slots_.size()].follows;
    slots_.push_back({std::move(parameter), std::move(tensors), follows});
  }
  std::vector<AdamWParameter> states;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Tensor value = shards_->own_part(i, slots_[i].tensors.value);
    if (!own.empty()) value = own[i].reshape(value.shape());
    add_state(slots_[i].tensors, value, options.rule);
    states.push_back(slots_[i].tensors);
  }
  reset_adamw_state(states);
}

AdamW::AdamW(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
             const std::function<bool(const NamedParameter&)>& decays)
    : AdamW(parameters, uses_of(parameters, options, decays), options,
            make_shards(parameters, uses_of(parameters, options, decays), options.rule, one_process(), 0),
            {}) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options) : AdamW(model, options, one_process(), 0) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options, Communicator& processes,
             std::size_t bucket_bytes)
    : AdamW(model, options, shards_of(model, options, processes, bucket_bytes), {}) {}

AdamW::AdamW(const Model& model, const AdamWOptions& options, std::shared_ptr<const ParameterShards> shards,
             const std::vector<Tensor>& own)
    : AdamW(model.parameters(), uses_of(model, options), options, std::move(shards), own) {
  freeze(model, uses_of(model, options));
}

void AdamW::make_update(const std::vector<AdamWParameter>& parameters) {
  update_ = make_adamw_update(parameters, options_);
  update_->set_learning_rate(learning_rate_);
  update_->set_limits(limits_);
  update_->set_steps(steps_);
}

/// A buffer on `device` for the gradient of slot `first`, and for those of the slots that follow it.
void AdamW::add_gradient_buffers(std::size_t first, Device device) {
  std::size_t end = first;
  std::int64_t elements = 0;
  do {
    elements += slots_[end++].parameter.variable.numel();
  } while (end < slots_.size() && slots_[end].follows);
  const Tensor buffer = empty({elements}, slots_[first].parameter.variable.grad_dtype(), device);
  std::int64_t begin = 0;
  for (Slot& slot : std::span(slots_).subspan(first, end - first)) {
    const Variable& variable = slot.parameter.variable;
    slot.tensors.grad = buffer.slice(begin, begin + variable.numel()).reshape(variable.shape());
    begin += variable.numel();
  }
}

void AdamW::keep_gradients() {
  if (update_) return;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    // The device of the moments: the value may still be on its way from other processes.
    const Device device = slots_[i].tensors.moment().device();
    if (device == kCpu || slots_[i].gradient_sum.defined()) continue;
    Variable& variable = slots_[i].parameter.variable;
    Tensor& grad = slots_[i].tensors.grad;
    const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
    if (variable.grad().defined()) {
      grad = variable.grad();
    } else if (!grad.defined()) {
      add_gradient_buffers(i, device);
    }
    variable.keep_gradient_in(grad);
  }
  std::vector<AdamWParameter> with_buffers;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    with_buffers.push_back(slots_[i].tensors);
    Tensor& grad = with_buffers.back().grad;
    if (grad.defined()) grad = shards_->own_part(i, grad);
    if (slots_[i].gradient_sum.defined()) grad = slots_[i].gradient_sum;
  }
  make_update(with_buffers);
}

/// Elements [count] of a parameter that are updated here, in the shape in which they are.
Tensor AdamW::in_shape_of(const Slot& slot, const Tensor& elements) {
  return elements.reshape(slot.tensors.value.shape());
}

void AdamW::take_gradients_from(const std::vector<Tensor>& sums) {
  MOH_CHECK(!update_ && sums.size() == slots_.size(), "a sum for each parameter, from the first update on");
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].gradient_sum = in_shape_of(slots_[i], sums[i]);
}

void AdamW::expect_each() {
  MOH_CHECK(!update_, "gradients come one by one from the first on");
  MOH_CHECK(options_.clip_grad_norm == 0, "updates of one parameter after the other clip nothing");
  std::vector<AdamWParameter> without_gradients;
  for (const Slot& slot : slots_) without_gradients.push_back(slot.tensors);
  make_update(without_gradients);
}

void AdamW::zero_grad() {
  keep_gradients();
  for (Slot& slot : slots_) slot.parameter.variable.zero_grad();
}

/// This process's elements of the gradient; zeros for one that is missing.
Tensor AdamW::gradient_of(std::size_t index) const {
  const Slot& slot = slots_[index];
  if (slot.gradient_sum.defined()) return slot.gradient_sum;
  const Tensor& grad = slot.parameter.variable.grad();
  if (grad.defined()) return shards_->own_part(index, grad);
  const Tensor& buffer = slot.tensors.grad;
  if (!buffer.defined()) return zeros(slot.tensors.value.shape(), slot.parameter.variable.grad_dtype());
  buffer.fill(0.0);
  return shards_->own_part(index, buffer);
}

std::vector<AdamWParameter> AdamW::parameters() const {
  std::vector<AdamWParameter> parameters;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    parameters.push_back(slots_[i].tensors);
    parameters.back().grad = gradient_of(i);
  }
  return parameters;
}

void AdamW::set_learning_rate(double learning_rate) {
  learning_rate_ = learning_rate;
  if (update_) update_->set_learning_rate(learning_rate);
}

void AdamW::set_limits(const UpdateLimits& limits) {
  limits_ = limits;
  if (update_) update_->set_limits(limits);
}

Tensor AdamW::update(const Tensor& losses) {
  keep_gradients();
  return update_->update(parameters(), losses, *shards_);
}

void AdamW::update_one(std::size_t index, const Tensor& grad) {
  AdamWParameter parameter = slots_[index].tensors;
  if (parameter.value.numel() == 0) return;  // of other processes
  parameter.grad = in_shape_of(slots_[index], grad);
  update_->update_one(index, parameter);
}

void AdamW::count_update() {
  ++steps_;
  if (update_) update_->count_update();
}

bool AdamW::step(const Variable& loss) {
  const Tensor outcome = update(loss.value().to(DType::kFloat64).reshape({1})).to(kCpu);
  const bool updated = outcome.span<double>()[1] == 1.0;
  if (updated) count_update();
  return updated;
}

std::vector<Variable> AdamW::trained() const {
  std::vector<Variable> trained;
  for (const Slot& slot : slots_) trained.push_back(slot.parameter.variable);
  return trained;
}

std::vector<Tensor> AdamW::own_values() const {
  std::vector<Tensor> values;
  for (const Slot& slot : slots_) values.push_back(slot.tensors.value);
  return values;
}

std::vector<NamedTensor> AdamW::gathered(const std::vector<NamedTensor>& parts) const {
  if (!shards_->divided()) return parts;
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
    // Of another shape than the parameter, and never divided.
    const auto add_whole = [&](const char* kind, const Tensor& tensor) {
      if (tensor.numel() > 0) state.push_back({kind + slots_[i].parameter.name, tensor, 0, tensor.numel()});
    };
    if (tensors.rule() == UpdateRule::kAdafactor) {
      add_whole("exp_avg_sq.", tensors.exp_avg_sq);
      add_whole("exp_avg_sq_row.", tensors.exp_avg_sq_row);
    } else {
      add("exp_avg.", tensors.exp_avg);
      if (tensors.exp_avg_sq.defined()) add("exp_avg_sq.", tensors.exp_avg_sq);
    }
    if (tensors.master.defined()) add("master.", tensors.master);
  }
  return state;
}

TensorPart AdamW::part_of(std::size_t slot, const NamedTensor& tensor) const {
  return {tensor.name, tensor.tensor, shards_->own(slot).begin, slots_[slot].parameter.variable.numel()};
}

std::vector<TensorPart> AdamW::parts_of(const std::vector<NamedTensor>& parts) const {
  std::vector<TensorPart> of_all;
  for (std::size_t i = 0; i < slots_.size(); ++i) of_all.push_back(part_of(i, parts[i]));
  return of_all;
}

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (update_) update_->set_steps(steps);
}

TrainedParameters trained_parameters(const Model& model, const AdamWOptions& options) {
  const std::vector<NamedParameter> parameters = model.parameters();
  const std::vector<ParameterUse> uses = uses_of(model, options);
  TrainedParameters of_model;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Variable& parameter = parameters[i].variable;
    uses[i].frozen ? of_model.frozen.push_back(parameter.value()) : of_model.trained.push_back(parameter);
  }
  return of_model;
}

std::shared_ptr<const ParameterShards> shards_of(const Model& model, const AdamWOptions& options,
                                                 Communicator& processes, std::size_t bucket_bytes) {
  return make_shards(model.parameters(), uses_of(model, options), options.rule, processes, bucket_bytes);
}

}  // namespace moh
