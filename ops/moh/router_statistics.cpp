#include "ops/moh/router_statistics.h"

#include <string>
#include <type_traits>

#include "core/error.h"
#include "ops/moh/router_statistics_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kOp = "router_statistics";

void check_logits(std::string_view name, const Tensor& logits, const Tensor& like, std::int64_t width) {
  const Variable z(logits);
  Check(kOp).rank(name, z, 2).dtype(name, z, like.dtype()).shape(name, z, {like.dim(0), width});
  if (logits.device() != like.device())
    throw DeviceError(error_message(kOp, name, device_name(like.device()), device_name(logits.device())));
}

void check_top(const Tensor& top, const Tensor& logits) {
  const Variable t(top);
  Check(kOp).rank("top", t, 2).dtype("top", t, DType::kInt32).shape("top", t, {logits.dim(0), top.dim(1)});
  Check(kOp).require(top.dim(1) >= 1 && top.dim(1) <= logits.dim(1), "top", "1 to E heads of each token",
                     to_string(top.shape()));
  if (top.device() != logits.device())
    throw DeviceError(error_message(kOp, "top", device_name(logits.device()), device_name(top.device())));
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace

Tensor router_statistics(const Tensor& routed_logits, const Tensor& type_logits, const Tensor& top,
                         std::int64_t groups) {
  const Tensor& like = routed_logits.defined() ? routed_logits : type_logits;
  if (!like.defined()) throw ValueError(error_message(kOp, "logits", "of one router or both", "none"));
  Check(kOp).rank("logits", Variable(like), 2);
  if (type_logits.defined()) check_logits("type_logits", type_logits, like, 2);
  if (routed_logits.defined()) {
    Check(kOp).require(top.defined(), "top", "the kept heads of routed_logits", "none");
    check_top(top, routed_logits);
    Check(kOp).require(groups >= 1 && routed_logits.dim(1) % groups == 0 && top.dim(1) % groups == 0,
                       "groups", "a divisor of E and K", std::to_string(groups));
  }
  const std::int64_t tokens = like.dim(0);
  const Tensor each = like.device() == kCpu ? Tensor() : empty({tokens, 2}, like.dtype(), like.device());
  Tensor means = empty({2}, like.dtype(), like.device());
  run_kernel(kOp, like, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) {
      RouterStatisticsArgs<A> args{.tokens = tokens, .means = means.data<A>()};
      args.routed_logits = data_or_null<A>(routed_logits);
      args.type_logits = data_or_null<A>(type_logits);
      if (routed_logits.defined()) {
        args.routed = routed_logits.dim(1);
        args.kept = top.dim(1);
        args.groups = groups;
        args.top = top.data<std::int32_t>();
      }
      if (each.defined()) args.each = each.data<A>();
      RouterStatisticsKernels<Backend, A>::forward(args);
    }
  });
  return means;
}

}  // namespace moh
