#pragma once

// For kernel files (*_cuda.cu) only.

#include "ops/attention/attention_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

/// Zeros for every (batch, query, head) of a view, kCount elements at a time, and for the pairs' gates, if
/// not null, [B, T, H]: what kernels over lists leave out.
template <class T, int kCount = Pack<T>::kCount>
struct HeadZeros {
  HeadView<T> view = {};
  AttentionShape shape = {};
  float* gates = nullptr;
  std::int64_t of_heads = 0, count = 0;  ///< calls for the view's elements, and for all

  static HeadZeros of(const HeadView<T>& view, const AttentionShape& s, float* gates) {
    const std::int64_t pairs = s.batch * s.queries * s.heads, of_heads = pairs * (s.head_dim / kCount);
    return {view, s, gates, of_heads, of_heads + (gates != nullptr ? pairs : 0)};
  }
  MOH_DEVICE void operator()(std::int64_t i) const {
    if (i >= of_heads) {
      gates[i - of_heads] = 0;
      return;
    }
    const std::int64_t per_head = shape.head_dim / kCount, pair = i / per_head, token = pair / shape.heads;
    T* const to = view.data + token / shape.queries * view.batch_stride +
                  token % shape.queries * view.token_stride + pair % shape.heads * view.head_stride +
                  i % per_head * kCount;
    if constexpr (kCount == 1) {
      *to = 0.0F;
    } else {
      *reinterpret_cast<Pack<T>*>(to) = Pack<T>{};
    }
  }
};

template <class T>
void zero_heads(const HeadView<T>& view, const AttentionShape& s, float* gates = nullptr) {
  if (s.head_dim % Pack<T>::kCount == 0) {  // then every head of a tensor is aligned to 16 bytes
    const auto zeros = HeadZeros<T>::of(view, s, gates);
    cuda::launch_each("zero_heads", zeros.count, zeros);
  } else {
    const auto zeros = HeadZeros<T, 1>::of(view, s, gates);
    cuda::launch_each("zero_odd_heads", zeros.count, zeros);
  }
}

}  // namespace moh
