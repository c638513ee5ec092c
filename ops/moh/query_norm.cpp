#include "ops/moh/query_norm.h"

#include "ops/moh/query_norm_kernels.h"
#include "ops/op.h"

namespace moh {

Variable query_norm_logits(const Variable& q, std::int64_t shared, const Tensor& order) {
  Check check("query_norm_logits");
  check.floating("q", q).rank("q", q, 3);
  if (shared < 0 || shared >= q.dim(1)) {
    throw ValueError(error_message("query_norm_logits", "shared", "0 to " + std::to_string(q.dim(1) - 1),
                                   std::to_string(shared)));
  }
  if (order.defined())
    check.dtype("order", Variable(order), DType::kInt32).shape("order", Variable(order), {q.dim(1)});
  const QueryNormShape shape{q.dim(0), q.dim(1), q.dim(2), shared,
                             order.defined() ? order.data<std::int32_t>() : nullptr};
  const DType statistics = accumulate_dtype(q.dtype());
  const Tensor norms = empty({shape.tokens, shape.heads - shared}, statistics, q.device()),
               logits = empty_like(norms);
  const Tensor inverse_std = empty({shape.tokens}, statistics, q.device());
  run_kernel("query_norm_logits", q.value(), [&]<class Backend, class T>() {
    QueryNormKernels<Backend, T>::forward(shape, q.value().data<T>(), norms.data<Acc<T>>(),
                                          inverse_std.data<Acc<T>>(), logits.data<Acc<T>>());
  });
  return record("query_norm_logits", logits, {q},
                [q = q.value(), norms, inverse_std, shape, order](const Tensor& d_logits) -> Grads {
                  Tensor dq = empty_like(q);
                  run_kernel("query_norm_logits", q, [&]<class Backend, class T>() {
                    QueryNormKernels<Backend, T>::backward(shape, q.data<T>(), norms.data<Acc<T>>(),
                                                           inverse_std.data<Acc<T>>(),
                                                           d_logits.data<Acc<T>>(), dq.data<T>());
                  });
                  return {dq};
                });
}

}  // namespace moh
