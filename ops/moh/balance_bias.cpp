#include "ops/moh/balance_bias.h"

#include <string>
#include <type_traits>

#include "core/error.h"
#include "ops/moh/balance_bias_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kBalanceBiasOp = "update_balance_bias";

void check(const Tensor& bias, const StepLoadRows& loads, std::int64_t groups, double rate,
           const Tensor& go) {
  const Variable b(bias), rows(loads.rows);
  Check(kBalanceBiasOp)
      .floating("bias", b)
      .rank("bias", b, 1)
      .dtype("bias", b, accumulate_dtype(bias.dtype()));
  Check(kBalanceBiasOp).rank("loads", rows, 2).dtype("loads", rows, DType::kFloat64);
  const std::int64_t routed = bias.numel(), width = loads.rows.dim(1);
  Check(kBalanceBiasOp)
      .require(loads.first >= 0 && loads.first + routed <= width, "loads",
               std::to_string(routed) + " columns from " + std::to_string(loads.first) + " on",
               to_string(loads.rows.shape()));
  Check(kBalanceBiasOp)
      .require(groups >= 1 && routed % groups == 0, "groups",
               "a divisor of the " + std::to_string(routed) + " routed heads", std::to_string(groups));
  Check(kBalanceBiasOp).in_range("rate", rate, 0, 1);
  if (go.defined()) Check(kBalanceBiasOp).dtype("go", Variable(go), DType::kFloat64);
  for (const Tensor& each : {loads.rows, go}) {
    if (each.defined() && each.device() != bias.device())
      throw DeviceError(
          error_message(kBalanceBiasOp, "loads", device_name(bias.device()), device_name(each.device())));
  }
}

}  // namespace

void update_balance_bias(const Tensor& bias, const StepLoadRows& loads, std::int64_t groups, double rate,
                         const Tensor& go) {
  check(bias, loads, groups, rate, go);
  run_kernel(kBalanceBiasOp, bias, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) {
      BalanceBiasKernels<Backend, A>::update({.bias = bias.data<A>(),
                                              .loads = loads.rows.data<double>() + loads.first,
                                              .go = go.defined() ? go.data<double>() : nullptr,
                                              .routed = bias.numel(),
                                              .micro_batches = loads.rows.dim(0),
                                              .row_width = loads.rows.dim(1),
                                              .groups = groups,
                                              .rate = static_cast<A>(rate)});
    }
  });
}

}  // namespace moh
