#include "ops/loss/smoothed_cross_entropy.h"

#include <string>

#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/cross_entropy_targets.h"
#include "ops/loss/smoothed_cross_entropy_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr const char* kSmoothedCrossEntropyOp = "smoothed_cross_entropy";

LabelWeights weights_of(double smoothing, std::int64_t labels) {
  if (!(smoothing >= 0 && smoothing < 1))
    throw ValueError(
        error_message(kSmoothedCrossEntropyOp, "smoothing", "0 to below 1", std::to_string(smoothing)));
  if (smoothing == 0) return {};
  if (labels < 2)
    throw ValueError(error_message(kSmoothedCrossEntropyOp, "smoothing", "0 with a single label",
                                   std::to_string(smoothing)));
  const double every = smoothing / static_cast<double>(labels - 1);
  return {.every = every, .target = 1 - smoothing - every};
}

}  // namespace

SmoothedLoss smoothed_cross_entropy(const Variable& logits, const Tensor& targets,
                                    const SmoothedCrossEntropyOptions& options) {
  const Tensor ids = checked_targets(kSmoothedCrossEntropyOp, logits, targets);
  const Rows rows = rows_of(logits);
  const LabelWeights weights = weights_of(options.smoothing, rows.width);
  const Divisor normalizer = options.normalizer.divisor(kSmoothedCrossEntropyOp, logits.device());
  const DType dtype = accumulate_dtype(logits.dtype());
  const auto per_row = [&] { return empty({rows.count}, dtype, logits.device()); };
  const Tensor losses = per_row(), row_nll = per_row(), maxima = per_row(), exp_sums = per_row();
  const Tensor loss = empty({}, dtype, logits.device()), nll = empty({}, dtype, logits.device());
  run_kernel(kSmoothedCrossEntropyOp, logits.value(), [&]<class Backend, class T>() {
    SmoothedCrossEntropyKernels<Backend, T>::forward(logits.value().data<T>(), ids.data<std::int64_t>(),
                                                     weights, losses.data<Acc<T>>(), row_nll.data<Acc<T>>(),
                                                     maxima.data<Acc<T>>(), exp_sums.data<Acc<T>>(), rows);
    for (const auto& [each, sum] : {std::pair{losses, loss}, {row_nll, nll}})
      CrossEntropyKernels<Backend, T>::reduce(each.template data<Acc<T>>(), rows.count, normalizer,
                                              sum.template data<Acc<T>>());
  });
  const bool keep = options.keep_logits || logits.is_leaf();
  Variable recorded =
      record(kSmoothedCrossEntropyOp, loss, {logits},
             [=, kept = options.normalizer, x = logits.value()](const Tensor& dloss) -> Grads {
               Tensor dx = keep ? empty_like(x) : x;
               run_kernel(kSmoothedCrossEntropyOp, x, [&]<class Backend, class T>() {
                 CrossEntropyKernels<Backend, T>::backward(
                     dloss.data<Acc<T>>(), normalizer, x.data<T>(), ids.data<std::int64_t>(), weights,
                     maxima.data<Acc<T>>(), exp_sums.data<Acc<T>>(), dx.data<T>(), rows);
               });
               return {dx};
             });
  return {std::move(recorded), nll};
}

}  // namespace moh
