#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// q, dq [N, H, d]; norms, logits, d_logits [N, E] with E = H - num_shared; inverse_std [N], 0 where std is
/// 0.
struct QueryNormShape {
  std::int64_t tokens, heads, head_dim, num_shared;
  const std::int32_t* order;  ///< [H], shared heads, then routed ones; null: 0, 1 .. H - 1
};

/// Kernels of query_norm_logits; outputs are overwritten, dq of the shared heads with zeros.
template <class Backend, class T>
struct QueryNormKernels {
  static void forward(const QueryNormShape& shape, const T* q, Acc<T>* norms, Acc<T>* inverse_std,
                      Acc<T>* logits);
  static void backward(const QueryNormShape& shape, const T* q, const Acc<T>* norms,
                       const Acc<T>* inverse_std, const Acc<T>* d_logits, T* dq);
};

}  // namespace moh
