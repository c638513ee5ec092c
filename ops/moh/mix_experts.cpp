#include "ops/moh/mix_experts.h"

#include <string>
#include <string_view>

#include "ops/aligned.h"
#include "ops/moh/mix_experts_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kMix = "mix_experts", kSpread = "spread_to_experts";

/// Checks gates and selection of `heads` heads, for the tokens of x, [B, T, ..., d].
ExpertRows expert_rows(std::string_view op, const Variable& x, const Variable& gates, const Tensor& selected,
                       std::int64_t heads) {
  const Variable mask(selected);
  Check check(op);
  check.floating("x", x).rank("x", x, 4).floating("gates", gates).rank("gates", gates, 3);
  const std::int64_t all = gates.dim(2);
  check.require(heads >= 1 && all % heads == 0 && all > 0, "heads",
                "a divisor of the " + std::to_string(all) + " experts of gates", std::to_string(heads));
  check.shape("gates", gates, {x.dim(0), x.dim(1), all}, "batch and tokens of x");
  check.dtype("selected", mask, DType::kUInt8).shape("selected", mask, gates.shape(), "gates");
  for (const auto& [name, device] : {std::pair{"gates", gates.device()}, {"selected", selected.device()}})
    if (device != x.device())
      throw DeviceError(error_message(op, name, device_name(x.device()), device_name(device)));
  return {x.dim(0) * x.dim(1) * heads, all / heads, x.dim(3), selected.data<std::uint8_t>()};
}

}  // namespace

Variable mix_experts(const Variable& x, const Variable& gates, const Tensor& selected, std::int64_t heads) {
  const ExpertRows shape = expert_rows(kMix, x, gates, selected, heads);
  Check(kMix).shape("x", x, {x.dim(0), x.dim(1), gates.dim(2), x.dim(3)}, "the experts of gates");
  const Tensor factors = gates.value().to(accumulate_dtype(x.dtype()));
  const Tensor rows = aligned_on_gpu(x.value());
  const Tensor y = empty({x.dim(0), x.dim(1), heads, x.dim(3)}, x.dtype(), x.device());
  run_kernel(kMix, y, [&]<class Backend, class T>() {
    MixExpertsKernels<Backend, T>::mix(rows.data<T>(), factors.data<Acc<T>>(), y.data<T>(), shape);
  });
  const DType gate_dtype = gates.dtype();
  return record(kMix, y, {x, gates}, [rows, factors, selected, shape, gate_dtype](const Tensor& dy) -> Grads {
    const Tensor dx = empty_like(rows), d_gates = empty_like(factors), d_heads = aligned_on_gpu(dy);
    run_kernel(kMix, dy, [&]<class Backend, class T>() {
      MixExpertsKernels<Backend, T>::mix_backward(d_heads.data<T>(), rows.data<T>(), factors.data<Acc<T>>(),
                                                  dx.data<T>(), d_gates.data<Acc<T>>(), shape);
    });
    return {dx, d_gates.to(gate_dtype)};
  });
}

Variable spread_to_experts(const Variable& x, const Variable& gates, const Tensor& selected) {
  Check(kSpread).floating("x", x).rank("x", x, 4);
  const ExpertRows shape = expert_rows(kSpread, x, gates, selected, x.dim(2));
  const Tensor factors = gates.value().to(accumulate_dtype(x.dtype()));
  const Tensor heads = aligned_on_gpu(x.value());
  const Tensor y = empty({x.dim(0), x.dim(1), gates.dim(2), x.dim(3)}, x.dtype(), x.device());
  run_kernel(kSpread, y, [&]<class Backend, class T>() {
    MixExpertsKernels<Backend, T>::spread(heads.data<T>(), factors.data<Acc<T>>(), y.data<T>(), shape);
  });
  const DType gate_dtype = gates.dtype();
  return record(
      kSpread, y, {x, gates}, [heads, factors, selected, shape, gate_dtype](const Tensor& dy) -> Grads {
        const Tensor dx = empty_like(heads), d_gates = empty_like(factors), d_rows = aligned_on_gpu(dy);
        run_kernel(kSpread, dy, [&]<class Backend, class T>() {
          MixExpertsKernels<Backend, T>::spread_backward(d_rows.data<T>(), heads.data<T>(),
                                                         factors.data<Acc<T>>(), dx.data<T>(),
                                                         d_gates.data<Acc<T>>(), shape);
        });
        return {dx, d_gates.to(gate_dtype)};
      });
}

}  // namespace moh
