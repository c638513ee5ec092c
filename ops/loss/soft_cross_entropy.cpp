#include "ops/loss/soft_cross_entropy.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "core/dry_run.h"
#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/soft_cross_entropy_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Throws for a target that is no share of a probability, as one of a label that is not among the classes.
template <class T>
void require_shares(const Tensor& targets) {
  const std::span<const T> values = targets.span<T>();
  const auto wrong = std::ranges::find_if(
      values, [](T value) { return !(value >= 0 && value <= std::numeric_limits<T>::max()); });
  if (wrong == values.end()) return;
  const std::int64_t at = wrong - values.begin(), width = targets.dim(-1);
  throw ValueError(error_message("soft_cross_entropy", "targets", "finite numbers from 0 on",
                                 std::to_string(*wrong) + " at row " + std::to_string(at / width) +
                                     ", class " + std::to_string(at % width)));
}

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
  if (targets.device() != kCpu || dry_run()) return;
  if (targets.dtype() == DType::kFloat64)
    require_shares<double>(targets);
  else
    require_shares<float>(targets);
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
