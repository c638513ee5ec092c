#include "ops/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "core/parallel.h"
#include "ops/op.h"
#include "ops/optim/adafactor.h"
#include "ops/optim/chunks.h"
#include "ops/optim/kernel_table.h"
#include "ops/optim/muon.h"

namespace moh {

namespace {

void check_tensor(const std::string& name, const Tensor& tensor, const Tensor& value, const Shape& shape,
                  DType dtype) {
  if (!tensor.defined()) throw ValueError(error_message("adamw", name, "a tensor", "none"));
  if (tensor.dtype() != dtype) {
    throw DTypeError(error_message("adamw", name, dtype_name(dtype), dtype_name(tensor.dtype())));
  }
  if (tensor.shape() != shape)
    throw ShapeError(error_message("adamw", name, to_string(shape), to_string(tensor.shape())));
  if (tensor.device() != value.device()) {
    throw DeviceError(
        error_message("adamw", name, device_name(value.device()), device_name(tensor.device())));
  }
}

void check_parameter(const AdamWParameter& parameter, std::size_t number, const Tensor& first,
                     bool needs_grad) {
  const std::string name = "parameter " + std::to_string(number);
  if (!parameter.value.defined()) throw ValueError(error_message("adamw", name, "a tensor", "none"));
  const DType dtype = parameter.value.dtype();
  // One kernel launch updates all parameters of a dtype, so they must be on one device.
  if (parameter.value.device() != first.device()) {
    throw DeviceError(error_message("adamw", name, device_name(first.device()) + " as parameter 0",
                                    device_name(parameter.value.device())));
  }
  visit_floating(dtype, "adamw: " + name, []<class T>() {});
  const Shape& whole = parameter.value.shape();
  const auto check = [&](const char* part, const Tensor& tensor, const Shape& shape) {
    check_tensor(name + ": " + part, tensor, parameter.value, shape, accumulate_dtype(dtype));
  };
  if (needs_grad) {
    const bool narrow = parameter.grad.defined() && parameter.grad.dtype() == DType::kBFloat16;
    check_tensor(name + ": grad", parameter.grad, parameter.value, whole,
                 narrow && dtype == DType::kBFloat16 ? dtype : accumulate_dtype(dtype));
  }
  if (parameter.rule() == UpdateRule::kAdafactor) {
    const AdafactorShapes shapes = adafactor_shapes(whole);
    check("exp_avg_sq", parameter.exp_avg_sq, shapes.exp_avg_sq);
    check("exp_avg_sq_row", parameter.exp_avg_sq_row, shapes.exp_avg_sq_row);
  } else {
    check("exp_avg", parameter.exp_avg, whole);
    if (parameter.rule() == UpdateRule::kAdamW) check("exp_avg_sq", parameter.exp_avg_sq, whole);
  }
  if (parameter.orthogonal && parameter.value.rank() != 2) {
    throw ShapeError(error_message("adamw", name, "a matrix, as it is updated by Muon",
                                   to_string(parameter.value.shape())));
  }
  if (dtype == DType::kBFloat16) {
    check("master", parameter.master, whole);
  } else if (parameter.master.defined()) {
    throw ValueError(error_message("adamw", name + ": master", "none for a value that is not bfloat16",
                                   describe(parameter.master)));
  }
}

void check_step(const AdamWStep& step) {
  if (step.step < 1) {
    throw ValueError(error_message("adamw", "step", "1 or more", std::to_string(step.step)));
  }
  Check("adamw")
      .in_range("beta1", step.beta1, 0.0, std::nextafter(1.0, 0.0))
      .in_range("beta2", step.beta2, 0.0, std::nextafter(1.0, 0.0))
      .in_range("momentum", step.momentum, 0.0, std::nextafter(1.0, 0.0))
      .positive("epsilon", step.epsilon);
  if (!std::isfinite(step.learning_rate) || !std::isfinite(step.grad_scale)) {
    throw ValueError(
        error_message("adamw", "learning_rate and grad_scale", "finite numbers",
                      std::to_string(step.learning_rate) + " and " + std::to_string(step.grad_scale)));
  }
}

template <class A>
AdamWCoefficients<A> coefficients_of(const AdamWStep& s) {
  const auto k = static_cast<double>(s.step);
  return adamw_coefficients<A>({s.beta1, s.beta2, s.epsilon, s.momentum}, s.grad_scale,
                               std::sqrt(1.0 - std::pow(s.beta2, k)), std::pow(k, -0.8));
}

template <class A>
std::vector<AdamWRate<A>> rates_of(const std::vector<AdamWScale>& scales, const AdamWStep& s) {
  const double bias1 = 1.0 - std::pow(s.beta1, static_cast<double>(s.step));
  std::vector<AdamWRate<A>> rates;
  for (const AdamWScale& scale : scales) rates.push_back(adamw_rate<A>(scale, s.learning_rate, bias1));
  return rates;
}

void zero_moments(const AdamWParameter& p) {
  for (const Tensor* moment : {&p.exp_avg, &p.exp_avg_sq, &p.exp_avg_sq_row})
    if (moment->defined()) moment->fill(0);
}

/// The first step's state of all parameters of dtype T, in the chunks and the order of AdamWKernels::update.
template <class T>
void reset_on_cpu(std::span<const AdamWParameter> parameters) {
  using A = Acc<T>;
  std::vector<AdamWScale> scales;
  const std::vector<AdamWChunk<T>> chunks = adamw_chunks<T, A>(parameters, scales);
  parallel_for(static_cast<std::int64_t>(chunks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const AdamWChunk<T>& chunk = chunks[static_cast<std::size_t>(i)];
      if (chunk.exp_avg != nullptr) std::fill_n(chunk.exp_avg, chunk.count, A(0));
      if (chunk.exp_avg_sq != nullptr) std::fill_n(chunk.exp_avg_sq, chunk.count, A(0));
      if (chunk.master != nullptr)
        std::transform(chunk.value, chunk.value + chunk.count, chunk.master,
                       [](T value) { return A(value); });
    }
  });
}

/// Updates the parameters whose values and gradients have these types.
template <class Backend, class T, class G>
void update(std::span<const AdamWParameter> parameters, const AdamWStep& step) {
  using A = Acc<T>;
  const Device device = parameters[0].value.device();
  std::vector<AdamWScale> scales;
  const KernelTable<AdamWChunk<T, G>> chunks(adamw_chunks<T, G>(parameters, scales), device);
  if (chunks.size() == 0) return;
  const KernelTable<AdamWRate<A>> rates(rates_of<A>(scales, step), device);
  const KernelTable<AdamWCoefficients<A>> coefficients({coefficients_of<A>(step)}, device);
  AdamWKernels<Backend, T, G>::update(chunks.data(), chunks.size(), coefficients.data(), rates.data(),
                                      nullptr);
}

/// Updates a parameter by itself. Its numbers are computed here and copied to its device.
void update_alone(const AdamWParameter& p, const AdamWStep& step) {
  const Device device = p.value.device();
  const auto with = [&]<class A>() {
    const KernelTable<AdamWCoefficients<A>> coefficients({coefficients_of<A>(step)}, device);
    const KernelTable<AdamWRate<A>> rates(
        rates_of<A>({{p.weight_decay, p.learning_rate_scale, p.rule()}}, step), device);
    update_one_alone(p, p.grad, {coefficients.data(), rates.data()});
  };
  if (p.value.dtype() == DType::kFloat64)
    with.template operator()<double>();
  else
    with.template operator()<float>();
}

}  // namespace

void update_one_alone(const AdamWParameter& parameter, const Tensor& grad, const StepNumbers& step) {
  if (parameter.value.numel() == 0) return;
  if (parameter.orthogonal)
    muon(parameter, grad, step);
  else
    adafactor(parameter, grad, step);
}

void check_adamw_parameters(std::span<const AdamWParameter> parameters, bool need_grads) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    check_parameter(parameters[i], i, parameters[0].value, need_grads);
}

void reset_adamw_state(std::span<const AdamWParameter> all) {
  check_adamw_parameters(all, /*need_grads=*/false);
  if (all.empty()) return;
  std::vector<AdamWParameter> parameters(all.begin(), all.end());
  for (AdamWParameter& p : parameters) p.grad = {}, p.narrow_grad = false;  // whatever their types
  if (parameters[0].value.device() == kCpu) {
    reset_on_cpu<float>(parameters);
    reset_on_cpu<bfloat16>(parameters);
    reset_on_cpu<double>(parameters);
    for (const AdamWParameter& p : parameters) {
      if (!p.by_elements()) zero_moments(p);
    }
    return;
  }
  for (const AdamWParameter& p : parameters) {
    zero_moments(p);
    if (p.master.defined()) p.master.copy_from(p.value);
  }
}

void adamw(std::span<const AdamWParameter> parameters, const AdamWStep& step) {
  check_step(step);
  check_adamw_parameters(parameters, /*need_grads=*/true);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const auto first = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const AdamWParameter& p) { return p.value.dtype() == dtype; });
    if (first == parameters.end()) continue;
    run_kernel("adamw", first->value, [&]<class Backend, class T>() {
      update<Backend, T, Acc<T>>(parameters, step);
      if constexpr (std::is_same_v<T, bfloat16>) update<Backend, T, bfloat16>(parameters, step);
    });
  }
  for (const AdamWParameter& parameter : parameters) {
    if (!parameter.by_elements()) update_alone(parameter, step);
  }
}

}  // namespace moh
