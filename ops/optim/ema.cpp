#include "ops/optim/ema.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/optim/chunks.h"

namespace moh {

namespace {

/// A Variable for Check, which reports undefined tensors.
Variable as_variable(const Tensor& tensor) {
  return tensor.defined() ? Variable(tensor) : Variable();
}

void check_parameter(const EmaParameter& parameter, std::size_t number, Device device) {
  const std::string name = "parameter " + std::to_string(number);
  const Variable value = as_variable(parameter.value), average = as_variable(parameter.average);
  Check check("ema");
  check.floating(name + ": value", value);
  check.dtype(name + ": average", average, accumulate_dtype(value.dtype()));
  check.shape(name + ": average", average, value.shape(), "that of value");
  for (const Variable& each : {value, average}) {
    if (each.device() == device) continue;
    throw DeviceError(
        error_message("ema", name, device_name(device) + " as parameter 0", device_name(each.device())));
  }
  if (device != kCpu && value.dtype() == DType::kFloat64)
    throw DTypeError(error_message("ema", name, "float32 or bfloat16 on a GPU", "float64"));
}

template <class T>
std::vector<EmaChunk<T>> ema_chunks(const std::vector<EmaParameter>& parameters) {
  const std::int64_t most = optimizer_chunk();
  std::vector<EmaChunk<T>> chunks;
  for (const EmaParameter& p : parameters) {
    if (p.value.dtype() != dtype_of<T>()) continue;
    for (std::int64_t begin = 0; begin < p.value.numel(); begin += most) {
      chunks.push_back({p.average.data<Acc<T>>() + begin, p.value.data<T>() + begin,
                        std::min(most, p.value.numel() - begin)});
    }
  }
  return chunks;
}

}  // namespace

EmaUpdate::EmaUpdate(std::vector<EmaParameter> parameters) : parameters_(std::move(parameters)) {
  if (parameters_.empty()) return;
  Check("ema").floating("parameter 0: value", as_variable(parameters_[0].value));
  const Device device = parameters_[0].value.device();
  for (std::size_t i = 0; i < parameters_.size(); ++i) check_parameter(parameters_[i], i, device);
  float32_ = {ema_chunks<float>(parameters_), device};
  bfloat16_ = {ema_chunks<bfloat16>(parameters_), device};
  float64_ = {ema_chunks<double>(parameters_), device};
}

void EmaUpdate::update(double decay, const Tensor& go) const {
  Check("ema").in_range("decay", decay, 0, 1);
  run(1.0 - decay, nullptr, go);
}

void EmaUpdate::update_by(const Tensor& rate, const Tensor& go) const {
  MOH_CHECK(rate.dtype() == DType::kFloat64 && rate.numel() == 1, "ema: a rate in float64");
  run(0, rate.data<double>(), go);
}

void EmaUpdate::run(double rate, const double* rate_at, const Tensor& go) const {
  if (parameters_.empty()) return;
  const double* const flag = go.defined() ? go.data<double>() : nullptr;
  run_kernel("ema", parameters_[0].value, [&]<class Backend, class Any>() {
    const auto update = [&]<class T>(const KernelTable<EmaChunk<T>>& chunks) {
      EmaKernels<Backend, T>::update(chunks.data(), chunks.size(), static_cast<Acc<T>>(rate), rate_at, flag);
    };
    update(float32_);
    update(bfloat16_);
    if constexpr (!std::is_same_v<Backend, Cuda>) update(float64_);
  });
}

}  // namespace moh
