#include "ops/moh/sigmoid_top_k.h"

#include <string>
#include <string_view>
#include <type_traits>

#include "ops/moh/sigmoid_top_k_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kSigmoidTopKOp = "sigmoid_top_k";

LogitGroups check_groups(const Variable& logits, std::int64_t experts, std::int64_t top_k) {
  Check check(kSigmoidTopKOp);
  check.floating("logits", logits).min_rank("logits", logits, 1);
  if (logits.dtype() == DType::kBFloat16)
    throw DTypeError(
        error_message(kSigmoidTopKOp, "logits", "float32 or float64", dtype_name(logits.dtype())));
  check.require(experts >= 1 && logits.dim(-1) % experts == 0, "experts",
                "a divisor of the last axis of logits, " + to_string(logits.shape()),
                std::to_string(experts));
  check.in_range("top_k", static_cast<double>(top_k), 1, static_cast<double>(experts));
  return {logits.numel() / experts, experts, top_k};
}

/// Calls fn.operator()<Backend, A>() for float32 or float64.
template <class Fn>
void run(const Tensor& logits, Fn&& fn) {
  run_kernel(kSigmoidTopKOp, logits, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) fn.template operator()<Backend, A>();
  });
}

}  // namespace

ExpertGates sigmoid_top_k(const Variable& logits, std::int64_t experts, std::int64_t top_k) {
  const LogitGroups groups = check_groups(logits, experts, top_k);
  const Tensor& z = logits.value();
  const Tensor gates = empty_like(z);
  const Tensor selected = empty(z.shape(), DType::kUInt8, z.device());
  run(z, [&]<class Backend, class A>() {
    SigmoidTopKKernels<Backend, A>::forward(z.data<A>(), gates.data<A>(), selected.data<std::uint8_t>(),
                                            groups);
  });
  const Variable result = record(kSigmoidTopKOp, gates, {logits}, [z, gates](const Tensor& d_gates) -> Grads {
    const Tensor d_logits = empty_like(z);
    run(z, [&]<class Backend, class A>() {
      SigmoidTopKKernels<Backend, A>::backward(d_gates.data<A>(), z.data<A>(), gates.data<A>(),
                                               d_logits.data<A>(), z.numel());
    });
    return {d_logits};
  });
  return {result, selected};
}

}  // namespace moh
