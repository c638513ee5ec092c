#include "ops/optim/device_adamw.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/optim/adafactor.h"
#include "ops/optim/adamw_plan_kernels.h"
#include "ops/optim/chunks.h"

namespace moh {

DeviceAdamW::DeviceAdamW(const std::vector<AdamWParameter>& parameters, const AdamWBetas& betas,
                         double max_norm)
    : betas_(betas), max_norm_(max_norm) {
  const bool has_grads = !parameters.empty() && parameters[0].grad.defined();
  check_adamw_parameters(parameters, has_grads);
  MOH_CHECK(!parameters.empty() && parameters[0].value.device() != kCpu,
            "DeviceAdamW needs parameters on a GPU");
  MOH_CHECK(has_grads || max_norm == 0, "gradients that come one by one are not clipped");
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);  // the tables are no optimizer state
  like_ = parameters[0].value;
  const Device device = like_.device();
  for (const AdamWParameter& p : parameters) {
    if (p.value.dtype() == DType::kFloat64)
      throw DTypeError(error_message("adamw", "dtype", "float32 or bfloat16 on a GPU", "float64"));
    types_.push_back(p.value.dtype());
  }
  ranges_.resize(parameters.size());
  std::vector<AdamWScale> scales;
  add_chunks(parameters, scales, float32_);
  add_chunks(parameters, scales, bfloat16_);
  add_chunks(parameters, scales, narrow_);
  square_sums_ = empty({num_sums_}, DType::kFloat64, device);
  const auto rate_bytes = static_cast<std::int64_t>(scales.size() * sizeof(AdamWRate<float>));
  scales_ = KernelTable<AdamWScale>(std::move(scales), device);
  rates_ = empty({rate_bytes}, DType::kUInt8, device);
  learning_rate_ = zeros({}, DType::kFloat64, device);
  limits_ = full({2}, std::numeric_limits<double>::infinity(), DType::kFloat64, device);
  steps_ = zeros({}, DType::kInt64, device);
  go_ = zeros({}, DType::kInt32, device);
  coefficients_ = empty({sizeof(AdamWCoefficients<float>)}, DType::kUInt8, device);
}

template <class T, class G>
void DeviceAdamW::add_chunks(const std::vector<AdamWParameter>& parameters, std::vector<AdamWScale>& scales,
                             Chunks<T, G>& chunks) {
  std::vector<AdamWChunk<T, G>> of_all = adamw_chunks<T, G>(parameters, scales);
  std::vector<GradChunk<G>> grads;
  for (const AdamWChunk<T, G>& chunk : of_all) grads.push_back({chunk.grad, chunk.count});
  chunks.first_sum = num_sums_;
  num_sums_ += std::ssize(grads);
  std::int64_t first = 0;
  const std::int64_t each = optimizer_chunk();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!has_types<T, G>(parameters[i])) continue;
    const std::int64_t elements = parameters[i].value.numel();
    ranges_[i] = {first, elements / each + (elements % each > 0 ? 1 : 0)};
    if (elements > 0) ranges_[i].rate = of_all[static_cast<std::size_t>(first)].rate;
    if (!parameters[i].by_elements()) alone_[i] = parameters[i];
    first += ranges_[i].count;
  }
  chunks.grads = {std::move(grads), like_.device()};
  chunks.parameters = {std::move(of_all), like_.device()};
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

/// Calls fn.template operator()<Backend>(chunks) for the chunks of each pair of types.
template <class Fn>
void DeviceAdamW::each_type(const char* op, Fn&& fn) const {
  run_kernel(op, like_, [&]<class Backend, class Any>() {
    fn.template operator()<Backend>(float32_);
    fn.template operator()<Backend>(bfloat16_);
    fn.template operator()<Backend>(narrow_);
  });
}

void DeviceAdamW::decide(const Tensor& losses, const Tensor& square_sums, double max_norm,
                         const Tensor& outcome) const {
  const AdamWPlan plan{.betas = betas_,
                       .max_norm = max_norm,
                       .square_sums = square_sums.data<double>(),
                       .num_square_sums = square_sums.numel(),
                       .losses = losses.data<double>(),
                       .num_losses = losses.numel(),
                       .limits = limits_.data<double>(),
                       .learning_rate = learning_rate_.data<double>(),
                       .scales = scales_.data(),
                       .num_scales = scales_.size(),
                       .steps = steps_.data<std::int64_t>(),
                       .coefficients = static_cast<AdamWCoefficients<float>*>(coefficients_.raw()),
                       .rates = static_cast<AdamWRate<float>*>(rates_.raw()),
                       .go = go_.data<std::int32_t>(),
                       .outcome = outcome.data<double>()};
  run_kernel("adamw_plan", like_, [&]<class Backend, class Any>() {
    if constexpr (std::is_same_v<Backend, Cuda>) AdamWPlanKernels<Backend>::decide(plan);
  });
}

/// The sum over all chunks, [1].
Tensor DeviceAdamW::sum_of_squares() const {
  Tensor sum = empty({1}, DType::kFloat64, like_.device());
  run_kernel("adamw_plan", like_, [&]<class Backend, class Any>() {
    if constexpr (std::is_same_v<Backend, Cuda>)
      AdamWPlanKernels<Backend>::sum(square_sums_.data<double>(), num_sums_, sum.data<double>());
  });
  return sum;
}

Tensor DeviceAdamW::update(const Tensor& losses,
                           const std::function<Tensor(const Tensor& own)>& squares_of_all) const {
  Tensor outcome = empty({2}, DType::kFloat64, like_.device());
  each_type("grad_norm", [&]<class Backend, class T, class G>(const Chunks<T, G>& chunks) {
    GradNormKernels<Backend, G>::sum_squares(chunks.grads.data(), chunks.grads.size(),
                                             square_sums_.data<double>() + chunks.first_sum);
  });
  decide(losses, squares_of_all ? squares_of_all(sum_of_squares()) : square_sums_, max_norm_, outcome);
  each_type("adamw", [&]<class Backend, class T, class G>(const Chunks<T, G>& chunks) {
    AdamWKernels<Backend, T, G>::update(chunks.parameters.data(), chunks.parameters.size(),
                                        static_cast<AdamWCoefficients<float>*>(coefficients_.raw()),
                                        static_cast<AdamWRate<float>*>(rates_.raw()),
                                        go_.data<std::int32_t>());
  });
  for (const auto& [number, parameter] : alone_) update_alone(number, parameter.grad);
  return outcome;
}

void DeviceAdamW::update_alone(std::size_t parameter, const Tensor& grad) const {
  const auto* const rates = static_cast<const AdamWRate<float>*>(rates_.raw());
  update_one_alone(alone_.at(parameter), grad,
                   {coefficients_.raw(), rates + ranges_[parameter].rate, go_.data<std::int32_t>()});
}

void DeviceAdamW::begin(const Tensor& losses) const {
  decide(losses, square_sums_.slice(0, 0), 0.0, empty({2}, DType::kFloat64, like_.device()));
}

void DeviceAdamW::update_one(std::size_t parameter, const Tensor& grad) const {
  const std::int64_t first = ranges_.at(parameter).first, count = ranges_[parameter].count;
  const auto update_in = [&]<class Backend, class T, class G>(const Chunks<T, G>& chunks) {
    double* const sums = square_sums_.data<double>() + chunks.first_sum + first;
    std::int32_t* const go = go_.data<std::int32_t>();
    GradNormKernels<Backend, G>::sum_squares(chunks.grads.data() + first, count, sums, grad.data<G>());
    if constexpr (std::is_same_v<Backend, Cuda>) AdamWPlanKernels<Backend>::require_finite(sums, count, go);
    AdamWKernels<Backend, T, G>::update(chunks.parameters.data() + first, count,
                                        static_cast<AdamWCoefficients<float>*>(coefficients_.raw()),
                                        static_cast<AdamWRate<float>*>(rates_.raw()), go, grad.data<G>());
  };
  run_kernel("adamw", like_, [&]<class Backend, class Any>() {
    if (types_.at(parameter) == DType::kFloat32) return update_in.template operator()<Backend>(float32_);
    if (grad.dtype() == DType::kFloat32) return update_in.template operator()<Backend>(bfloat16_);
    update_in.template operator()<Backend>(narrow_);
  });
  if (alone_.contains(parameter)) update_alone(parameter, grad);
}

Tensor DeviceAdamW::finish(const std::function<Tensor(const Tensor& own)>& squares_of_all) const {
  Tensor outcome = empty({2}, DType::kFloat64, like_.device());
  const Tensor squares = squares_of_all ? squares_of_all(sum_of_squares()) : square_sums_;
  run_kernel("adamw_plan", like_, [&]<class Backend, class Any>() {
    if constexpr (std::is_same_v<Backend, Cuda>) {
      AdamWPlanKernels<Backend>::conclude(squares.data<double>(), squares.numel(), go_.data<std::int32_t>(),
                                          outcome.data<double>());
    }
  });
  return outcome;
}

}  // namespace moh
