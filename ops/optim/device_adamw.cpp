#include "ops/optim/device_adamw.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/optim/adamw_plan_kernels.h"
#include "ops/optim/chunks.h"

namespace moh {

DeviceAdamW::DeviceAdamW(const std::vector<AdamWParameter>& parameters, const AdamWBetas& betas,
                         double max_norm)
    : betas_(betas), max_norm_(max_norm) {
  check_adamw_parameters(parameters);
  MOH_CHECK(!parameters.empty() && parameters[0].value.device() != kCpu,
            "DeviceAdamW needs parameters on a GPU");
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);  // the tables are no optimizer state
  like_ = parameters[0].value;
  const Device device = like_.device();
  std::vector<Tensor> grads_float32, grads_bfloat16;  // by the dtype of the parameter
  for (const AdamWParameter& p : parameters) {
    const DType dtype = p.value.dtype();
    if (dtype == DType::kFloat64)
      throw DTypeError(error_message("adamw", "dtype", "float32 or bfloat16 on a GPU", "float64"));
    (dtype == DType::kBFloat16 ? grads_bfloat16 : grads_float32).push_back(p.grad);
  }
  std::vector<AdamWScale> scales;
  float32_ = {{grad_chunks<float>(grads_float32), device}, {adamw_chunks<float>(parameters, scales), device}};
  bfloat16_ = {{grad_chunks<float>(grads_bfloat16), device},
               {adamw_chunks<bfloat16>(parameters, scales), device}};
  square_sums_ = empty({float32_.grads.size() + bfloat16_.grads.size()}, DType::kFloat64, device);
  const auto rate_bytes = static_cast<std::int64_t>(scales.size() * sizeof(AdamWRate<float>));
  scales_ = KernelTable<AdamWScale>(std::move(scales), device);
  rates_ = empty({rate_bytes}, DType::kUInt8, device);
  learning_rate_ = zeros({}, DType::kFloat64, device);
  limits_ = full({2}, std::numeric_limits<double>::infinity(), DType::kFloat64, device);
  steps_ = zeros({}, DType::kInt64, device);
  go_ = zeros({}, DType::kInt32, device);
  coefficients_ = empty({sizeof(AdamWCoefficients<float>)}, DType::kUInt8, device);
}

void DeviceAdamW::set_learning_rate(double learning_rate) {
  learning_rate_.copy_from(full({}, learning_rate, DType::kFloat64));
}

void DeviceAdamW::set_limits(double loss, double norm) {
  limits_.copy_from(tensor_of<double>({2}, {loss, norm}));
}

void DeviceAdamW::set_steps(std::int64_t steps) {
  steps_.copy_from(tensor_of<std::int64_t>({}, {steps}));
}

/// Calls fn.operator()<Backend, T>(chunks) for the chunks of each dtype.
template <class Fn>
void DeviceAdamW::each_dtype(const char* op, Fn&& fn) const {
  run_kernel(op, like_, [&]<class Backend, class Any>() {
    fn.template operator()<Backend, float>(float32_);
    fn.template operator()<Backend, bfloat16>(bfloat16_);
  });
}

Tensor DeviceAdamW::update(const Tensor& losses) const {
  Tensor outcome = empty({2}, DType::kFloat64, like_.device());
  auto* const coefficients = static_cast<AdamWCoefficients<float>*>(coefficients_.raw());
  double* sums = square_sums_.data<double>();
  each_dtype("grad_norm", [&]<class Backend, class T>(const Chunks<T>& chunks) {
    GradNormKernels<Backend, Acc<T>>::sum_squares(chunks.grads.data(), chunks.grads.size(), sums);
    sums += chunks.grads.size();
  });
  const AdamWPlan plan{.betas = betas_,
                       .max_norm = max_norm_,
                       .square_sums = square_sums_.data<double>(),
                       .num_square_sums = square_sums_.numel(),
                       .losses = losses.data<double>(),
                       .num_losses = losses.numel(),
                       .limits = limits_.data<double>(),
                       .learning_rate = learning_rate_.data<double>(),
                       .scales = scales_.data(),
                       .num_scales = scales_.size(),
                       .steps = steps_.data<std::int64_t>(),
                       .coefficients = coefficients,
                       .rates = static_cast<AdamWRate<float>*>(rates_.raw()),
                       .go = go_.data<std::int32_t>(),
                       .outcome = outcome.data<double>()};
  run_kernel("adamw_plan", like_, [&]<class Backend, class Any>() {
    if constexpr (std::is_same_v<Backend, Cuda>) AdamWPlanKernels<Backend>::decide(plan);
  });
  each_dtype("adamw", [&]<class Backend, class T>(const Chunks<T>& chunks) {
    AdamWKernels<Backend, T>::update(chunks.parameters.data(), chunks.parameters.size(), coefficients,
                                     plan.rates, plan.go);
  });
  return outcome;
}

}  // namespace moh
