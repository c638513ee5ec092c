#include "ops/loss/top1.h"

#include <algorithm>

#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/top1_kernels.h"

namespace moh {

Tensor top1_share(const Tensor& logits, const Tensor& targets) {
  constexpr std::string_view kOp = "top1_share";
  const Variable x(logits), t(targets);
  Check(kOp).floating("logits", x).rank("logits", x, 2);
  const DType wide = accumulate_dtype(logits.dtype());
  Check(kOp).dtype("targets", t, wide).shape("targets", t, logits.shape(), "as logits");
  if (targets.device() != logits.device()) {
    throw DeviceError(error_message(kOp, "targets", device_name(logits.device()) + " as logits",
                                    device_name(targets.device())));
  }
  const Rows rows = rows_of(x);
  const Tensor hits = empty({rows.count}, wide, logits.device());
  Tensor share = empty({}, wide, logits.device());
  run_kernel("top1_share", logits, [&]<class Backend, class T>() {
    Top1Kernels<Backend, T>::compare(logits.data<T>(), targets.data<Acc<T>>(), hits.data<Acc<T>>(), rows);
    CrossEntropyKernels<Backend, T>::reduce(hits.data<Acc<T>>(), rows.count,
                                            {static_cast<double>(std::max<std::int64_t>(rows.count, 1))},
                                            share.data<Acc<T>>());
  });
  return share;
}

Tensor top1(const Tensor& logits) {
  const Variable x(logits);
  Check("top1").floating("logits", x).rank("logits", x, 2);
  Check("top1").require(logits.dim(1) > 0, "logits", "a class or more", to_string(logits.shape()));
  const Rows rows = rows_of(x);
  Tensor classes = empty({rows.count}, DType::kInt64, logits.device());
  run_kernel("top1", logits, [&]<class Backend, class T>() {
    Top1Kernels<Backend, T>::largest(logits.data<T>(), classes.data<std::int64_t>(), rows);
  });
  return classes;
}

}  // namespace moh
