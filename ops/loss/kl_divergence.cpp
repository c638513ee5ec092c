#include "ops/loss/kl_divergence.h"

#include <string>

#include "ops/indices.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/kl_divergence_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kKlDivergenceOp = "kl_divergence";

Tensor checked_targets(const Variable& logits, const Tensor& targets) {
  if (!targets.defined()) return {};
  const IndexRange range{.bound = logits.dim(-1), .ignored = kIgnoredTarget, .of = "last axis of logits"};
  Tensor checked = checked_indices(std::string(kKlDivergenceOp), "targets", targets, logits.device(), range);
  const Shape leading(logits.shape().extents().first(static_cast<std::size_t>(logits.shape().rank() - 1)));
  if (targets.shape() != leading) {
    throw ShapeError(error_message(kKlDivergenceOp, "targets",
                                   to_string(leading) + ", as logits without the last axis",
                                   to_string(targets.shape())));
  }
  return checked;
}

const std::int64_t* ids_of(const Tensor& targets) {
  return targets.defined() ? targets.data<std::int64_t>() : nullptr;
}

/// The tensor [4, N] of SoftenedRows.
template <class A>
SoftenedRows<A> rows_in(const Tensor& saved) {
  A* const first = saved.data<A>();
  const std::int64_t count = saved.dim(1);
  return {first, first + count, first + 2 * count, first + 3 * count};
}

}  // namespace

Variable kl_divergence(const Variable& logits, const Tensor& teacher, const Tensor& targets,
                       const KlDivergenceOptions& options) {
  Check check(kKlDivergenceOp);
  check.floating("logits", logits).min_rank("logits", logits, 1);
  check.positive("temperature", options.temperature);
  const Variable of_teacher = teacher.defined() ? Variable(teacher) : Variable();
  check.like("teacher", of_teacher, "logits", logits);
  check.shape("teacher", of_teacher, logits.shape(), "as logits");
  const Tensor ids = checked_targets(logits, targets);
  const Rows rows = rows_of(logits);
  const DType dtype = accumulate_dtype(logits.dtype());
  const double t = options.temperature;
  const Divisor normalizer = options.normalizer.divisor(kKlDivergenceOp, logits.device());
  const Tensor losses = empty({rows.count}, dtype, logits.device());
  const Tensor saved = empty({4, rows.count}, dtype, logits.device());
  Tensor loss = empty({}, dtype, logits.device());
  run_kernel(kKlDivergenceOp, logits.value(), [&]<class Backend, class T>() {
    KlDivergenceKernels<Backend, T>::forward(logits.value().data<T>(), teacher.data<T>(), ids_of(ids), t,
                                             losses.data<Acc<T>>(), rows_in<Acc<T>>(saved), rows);
    CrossEntropyKernels<Backend, T>::reduce(losses.data<Acc<T>>(), rows.count,
                                            {normalizer.value, normalizer.on_device, t * t},
                                            loss.data<Acc<T>>());
  });
  return record(kKlDivergenceOp, loss, {logits},
                [=, x = logits.value(), kept = options.normalizer,
                 keep = options.keep_teacher](const Tensor& dloss) -> Grads {
                  Tensor dx = keep ? empty_like(x) : teacher;
                  run_kernel(kKlDivergenceOp, x, [&]<class Backend, class T>() {
                    KlDivergenceKernels<Backend, T>::backward(
                        dloss.data<Acc<T>>(), {normalizer.value, normalizer.on_device, t}, x.data<T>(),
                        teacher.data<T>(), ids_of(ids), t, rows_in<Acc<T>>(saved), dx.data<T>(), rows);
                  });
                  return {dx};
                });
}

}  // namespace moh
