#include "ops/loss/soft_cross_entropy.h"

#include <string>

#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/soft_cross_entropy_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

void check(const Variable& logits, const Tensor& targets, double normalizer) {
  const std::string op = "soft_cross_entropy";
  Check(op).floating("logits", logits).min_rank("logits", logits, 1).positive("normalizer", normalizer);
  const Variable t = targets.defined() ? Variable(targets) : Variable();
  Check(op)
      .dtype("targets", t, accumulate_dtype(logits.dtype()))
      .shape("targets", t, logits.shape(), "as logits");
  if (targets.device() != logits.device()) {
    throw DeviceError(error_message(op, "targets", device_name(logits.device()) + " as logits",
                                    device_name(targets.device())));
  }
}

}  // namespace

Variable soft_cross_entropy(const Variable& logits, const Tensor& targets, double normalizer) {
  check(logits, targets, normalizer);
  const Rows rows = rows_of(logits);
  const DType dtype = accumulate_dtype(logits.dtype());
  const auto per_row = [&] { return empty({rows.count}, dtype, logits.device()); };
  const Tensor losses = per_row(), maxima = per_row(), exp_sums = per_row();
  const Tensor loss = empty({}, dtype, logits.device());
  run_kernel("soft_cross_entropy", logits.value(), [&]<class Backend, class T>() {
    SoftCrossEntropyKernels<Backend, T>::forward(logits.value().data<T>(), targets.data<Acc<T>>(),
                                                 losses.data<Acc<T>>(), maxima.data<Acc<T>>(),
                                                 exp_sums.data<Acc<T>>(), rows);
    CrossEntropyKernels<Backend, T>::reduce(losses.data<Acc<T>>(), rows.count, {normalizer},
                                            loss.data<Acc<T>>());
  });
  return record("soft_cross_entropy", loss, {logits}, [=, x = logits.value()](const Tensor& dloss) -> Grads {
    const Tensor dx = empty_like(x);
    run_kernel("soft_cross_entropy", x, [&]<class Backend, class T>() {
      SoftCrossEntropyKernels<Backend, T>::backward(dloss.data<Acc<T>>(), normalizer, x.data<T>(),
                                                    targets.data<Acc<T>>(), maxima.data<Acc<T>>(),
                                                    exp_sums.data<Acc<T>>(), dx.data<T>(), rows);
    });
    return {dx};
  });
}

}  // namespace moh
