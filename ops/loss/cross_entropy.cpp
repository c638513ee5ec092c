#include "ops/loss/cross_entropy.h"

#include <string>

#include "ops/indices.h"
#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/cross_entropy_targets.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Results of the forward pass per row: [N] each.
struct RowResults {
  Tensor losses;
  Tensor maxima;
  Tensor exp_sums;
};

Shape leading_shape(const Shape& shape) {
  return Shape(shape.extents().first(static_cast<std::size_t>(shape.rank() - 1)));
}

}  // namespace

Tensor checked_targets(const std::string& op, const Variable& logits, const Tensor& targets) {
  Check(op).floating("logits", logits).min_rank("logits", logits, 1);
  const IndexRange range{.bound = logits.dim(-1), .ignored = kIgnoredTarget, .of = "last axis of logits"};
  Tensor checked = checked_indices(op, "targets", targets, logits.device(), range);
  if (targets.shape() != leading_shape(logits.shape())) {
    throw ShapeError(error_message(
        op, "targets", to_string(leading_shape(logits.shape())) + ", as logits without the last axis",
        to_string(targets.shape())));
  }
  return checked;
}

namespace {

RowResults compute_rows(const Tensor& logits, const Tensor& targets, Rows rows) {
  const DType dtype = accumulate_dtype(logits.dtype());
  RowResults results{empty({rows.count}, dtype, logits.device()), empty({rows.count}, dtype, logits.device()),
                     empty({rows.count}, dtype, logits.device())};
  run_kernel("cross_entropy", logits, [&]<class Backend, class T>() {
    CrossEntropyKernels<Backend, T>::forward(logits.data<T>(), targets.data<std::int64_t>(),
                                             results.losses.data<Acc<T>>(), results.maxima.data<Acc<T>>(),
                                             results.exp_sums.data<Acc<T>>(), rows);
  });
  return results;
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor ids = checked_targets("cross_entropy", logits, targets);
  const Rows rows = rows_of(logits);
  const Divisor normalizer = options.normalizer.divisor("cross_entropy", logits.device());
  const RowResults row = compute_rows(logits.value(), ids, rows);
  Tensor loss = empty({}, row.losses.dtype(), logits.device());
  run_kernel("cross_entropy", logits.value(), [&]<class Backend, class T>() {
    CrossEntropyKernels<Backend, T>::reduce(row.losses.data<Acc<T>>(), rows.count, normalizer,
                                            loss.data<Acc<T>>());
  });
  const bool keep = options.keep_logits || logits.is_leaf();
  return record("cross_entropy", loss, {logits},
                [=, kept = options.normalizer, x = logits.value(), maxima = row.maxima,
                 exp_sums = row.exp_sums](const Tensor& dloss) -> Grads {
                  Tensor dx = keep ? empty_like(x) : x;
                  run_kernel("cross_entropy", x, [&]<class Backend, class T>() {
                    CrossEntropyKernels<Backend, T>::backward(
                        dloss.data<Acc<T>>(), normalizer, x.data<T>(), ids.data<std::int64_t>(),
                        LabelWeights(), maxima.data<Acc<T>>(), exp_sums.data<Acc<T>>(), dx.data<T>(), rows);
                  });
                  return {dx};
                });
}

Tensor token_losses(const Tensor& logits, const Tensor& targets) {
  const Variable x = logits.defined() ? Variable(logits) : Variable();
  const Tensor ids = checked_targets("token_losses", x, targets);
  return compute_rows(logits, ids, rows_of(x)).losses.reshape(targets.shape());
}

}  // namespace moh
