#include "ops/moh/query_norm.h"

#include "ops/moh/query_norm_kernels.h"
#include "ops/op.h"

namespace moh {

Variable query_norm_logits(const Variable& q, std::int64_t first_head) {
  Check("query_norm_logits").floating("q", q).rank("q", q, 3);
  if (first_head < 0 || first_head >= q.dim(1)) {
    throw ValueError(error_message("query_norm_logits", "first_head", "0 to " + std::to_string(q.dim(1) - 1),
                                   std::to_string(first_head)));
  }
  const QueryNormShape shape{q.dim(0), q.dim(1), q.dim(2), first_head};
  const DType statistics = accumulate_dtype(q.dtype());
  const Tensor norms = empty({shape.tokens, shape.heads - first_head}, statistics, q.device()),
               logits = empty_like(norms);
  const Tensor inverse_std = empty({shape.tokens}, statistics, q.device());
  run_kernel("query_norm_logits", q.value(), [&]<class Backend, class T>() {
    QueryNormKernels<Backend, T>::forward(shape, q.value().data<T>(), norms.data<Acc<T>>(),
                                          inverse_std.data<Acc<T>>(), logits.data<Acc<T>>());
  });
  return record("query_norm_logits", logits, {q},
                [q = q.value(), norms, inverse_std, shape](const Tensor& d_logits) -> Grads {
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
