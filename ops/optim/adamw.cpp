#include "ops/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/optim/adamw_kernels.h"

namespace moh {

namespace {

constexpr std::int64_t kChunk = 1 << 14;

void check_tensor(const std::string& name, const Tensor& tensor, const Tensor& value, DType dtype) {
  if (!tensor.defined()) throw ValueError(error_message("adamw", name, "a tensor", "none"));
  if (tensor.dtype() != dtype) {
    throw DTypeError(error_message("adamw", name, dtype_name(dtype), dtype_name(tensor.dtype())));
  }
  if (tensor.shape() != value.shape()) {
    throw ShapeError(error_message("adamw", name, to_string(value.shape()), to_string(tensor.shape())));
  }
  if (tensor.device() != value.device()) {
    throw DeviceError(
        error_message("adamw", name, device_name(value.device()), device_name(tensor.device())));
  }
}

void check_parameter(const AdamWParameter& parameter, std::size_t number, const Tensor& first) {
  const std::string name = "parameter " + std::to_string(number);
  if (!parameter.value.defined()) throw ValueError(error_message("adamw", name, "a tensor", "none"));
  const DType dtype = parameter.value.dtype();
  // One kernel call takes all parameters of a dtype.
  if (parameter.value.device() != first.device()) {
    throw DeviceError(error_message("adamw", name, device_name(first.device()) + " as parameter 0",
                                    device_name(parameter.value.device())));
  }
  visit_floating(dtype, "adamw: " + name, []<class T>() {});
  const auto check = [&](const char* part, const Tensor& tensor) {
    check_tensor(name + ": " + part, tensor, parameter.value, accumulate_dtype(dtype));
  };
  check("grad", parameter.grad);
  check("exp_avg", parameter.exp_avg);
  check("exp_avg_sq", parameter.exp_avg_sq);
  if (dtype == DType::kBFloat16) {
    check("master", parameter.master);
  } else if (parameter.master.defined()) {
    throw ValueError(error_message("adamw", name + ": master", "none beside a value of full precision",
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
  return {.grad_scale = static_cast<A>(s.grad_scale),
          .beta1 = static_cast<A>(s.beta1),
          .one_minus_beta1 = static_cast<A>(1.0 - s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .one_minus_beta2 = static_cast<A>(1.0 - s.beta2),
          .step_size = static_cast<A>(s.learning_rate / (1.0 - std::pow(s.beta1, k))),
          .root_scale = static_cast<A>(1.0 / std::sqrt(1.0 - std::pow(s.beta2, k))),
          .epsilon = static_cast<A>(s.epsilon)};
}

template <class T>
void append_chunks(const AdamWParameter& p, double learning_rate, std::vector<AdamWChunk<T>>& chunks) {
  using A = Acc<T>;
  A* const master = p.master.defined() ? p.master.data<A>() : nullptr;
  const auto keep = static_cast<A>(1.0 - learning_rate * p.weight_decay);
  for (std::int64_t begin = 0; begin < p.value.numel(); begin += kChunk) {
    chunks.push_back({.value = p.value.data<T>() + begin,
                      .grad = p.grad.data<A>() + begin,
                      .exp_avg = p.exp_avg.data<A>() + begin,
                      .exp_avg_sq = p.exp_avg_sq.data<A>() + begin,
                      .master = master ? master + begin : nullptr,
                      .count = std::min(kChunk, p.value.numel() - begin),
                      .keep = keep});
  }
}

}  // namespace

void adamw(std::span<const AdamWParameter> parameters, const AdamWStep& step) {
  check_step(step);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check_parameter(parameters[i], i, parameters[0].value);
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const auto first = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const AdamWParameter& p) { return p.value.dtype() == dtype; });
    if (first == parameters.end()) continue;
    run_kernel("adamw", first->value, [&]<class Backend, class T>() {
      std::vector<AdamWChunk<T>> chunks;
      for (const AdamWParameter& p : parameters) {
        if (p.value.dtype() == dtype) append_chunks(p, step.learning_rate, chunks);
      }
      AdamWKernels<Backend, T>::update(chunks.data(), static_cast<std::int64_t>(chunks.size()),
                                       coefficients_of<Acc<T>>(step));
    });
  }
}

}  // namespace moh
