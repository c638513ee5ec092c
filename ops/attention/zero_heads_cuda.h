#pragma once

// For kernel files (*_cuda.cu) only.

#include "ops/attention/attention_kernels.h"
#include "ops/cuda/map.h"

namespace moh {

namespace {

/// Zeros for every (batch, query, head) of a view, kCount elements at a time.
template <class T, int kCount>
struct ZeroHeads {
  HeadView<T> view;
  AttentionShape shape;
  MOH_DEVICE void operator()(std::int64_t i) const {
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
void zero_heads(const HeadView<T>& view, const AttentionShape& s) {
  const std::int64_t elements = s.batch * s.queries * s.heads * s.head_dim;
  constexpr int kPack = Pack<T>::kCount;
  if (s.head_dim % kPack == 0) {  // then every head of a tensor is aligned to 16 bytes
    cuda::launch_each("zero_heads", elements / kPack, ZeroHeads<T, kPack>{view, s});
  } else {
    cuda::launch_each("zero_odd_heads", elements, ZeroHeads<T, 1>{view, s});
  }
}

}  // namespace

}  // namespace moh
