#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// q, dq [N, H, d]; norms, logits, d_logits [N, E] with E = H - first_head; inverse_std [N], 0 where std is
/// 0.
struct QueryNormShape {
  std::int64_t tokens, heads, head_dim, first_head;
};

/// Kernels of query_norm_logits; outputs are overwritten, dq of the heads below first_head with zeros.
template <class Backend, class T>
struct QueryNormKernels {
  static void forward(const QueryNormShape& shape, const T* q, Acc<T>* norms, Acc<T>* inverse_std,
                      Acc<T>* logits);
  static void backward(const QueryNormShape& shape, const T* q, const Acc<T>* norms,
                       const Acc<T>* inverse_std, const Acc<T>* d_logits, T* dq);
};

}  // namespace moh
