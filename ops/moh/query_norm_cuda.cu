#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/moh/query_norm_kernels.h"

namespace moh {

namespace {

/// The head of the layer at index i of the router's order, shared heads first.
MOH_DEVICE std::int64_t head_at(const QueryNormShape& shape, std::int64_t i) {
  return shape.order != nullptr ? shape.order[i] : i;
}

/// Sum over the heads of body(e), which are distributed over the lanes; on all lanes.
template <class Body>
MOH_DEVICE float sum_over_heads(std::int64_t heads, const Body& body) {
  float sum = 0;
  for (std::int64_t e = device::thread_x() % device::kWarp; e < heads; e += device::kWarp) sum += body(e);
  return reduce_warp(sum, Sum{});
}

template <class T>
MOH_DEVICE float norm_of(const T* row, std::int64_t head_dim) {
  float squares = 0;
  for (std::int64_t j = device::thread_x() % device::kWarp; j < head_dim; j += device::kWarp)
    squares += static_cast<float>(row[j]) * static_cast<float>(row[j]);
  return sqrtf(reduce_warp(squares, Sum{}));
}

MOH_DEVICE float inverse_std_of(const float* norms, std::int64_t experts) {
  if (experts < 2) return 0;
  const float mean =
      sum_over_heads(experts, [&](std::int64_t e) { return norms[e]; }) / static_cast<float>(experts);
  const float squares =
      sum_over_heads(experts, [&](std::int64_t e) { return (norms[e] - mean) * (norms[e] - mean); });
  const float std = sqrtf(squares / static_cast<float>(experts - 1));
  constexpr float kRounding = 1e-6F;
  return std > kRounding * mean ? 1.0F / std : 0.0F;
}

/// One warp per token; all lanes of a warp without a token return.
template <class T>
MOH_KERNEL(kItemThreads)
void query_norm_kernel(QueryNormShape shape, const T* q, float* norms, float* inverse_std, float* logits) {
  const std::int64_t t = item_of_warp();
  if (t >= shape.tokens) return;
  const std::int64_t experts = shape.heads - shape.num_shared, d = shape.head_dim;
  const int lane = device::thread_x() % device::kWarp;
  float* own = norms + t * experts;
  for (std::int64_t e = 0; e < experts; ++e) {
    const float norm = norm_of(q + (t * shape.heads + head_at(shape, shape.num_shared + e)) * d, d);
    if (lane == 0) own[e] = norm;
  }
  device::sync_warp();
  const float inverse = inverse_std_of(own, experts);
  if (lane == 0) inverse_std[t] = inverse;
  for (std::int64_t e = lane; e < experts; e += device::kWarp) logits[t * experts + e] = own[e] * inverse;
}

template <class T>
struct QueryNormGradient {
  QueryNormShape shape;
  const T* q;
  const float *norms, *inverse_std, *d_logits;
  T* dq;
};

/// One warp per token.
template <class T>
MOH_KERNEL(kItemThreads)
void query_norm_gradient_kernel(QueryNormGradient<T> g) {
  const std::int64_t t = item_of_warp();
  if (t >= g.shape.tokens) return;
  const std::int64_t shared = g.shape.num_shared, experts = g.shape.heads - shared, d = g.shape.head_dim;
  const int lane = device::thread_x() % device::kWarp;
  const float *s = g.norms + t * experts, *dz = g.d_logits + t * experts;
  const float u = g.inverse_std[t], count = static_cast<float>(experts);
  const float mean = sum_over_heads(experts, [&](std::int64_t e) { return s[e]; }) / count;
  const float along = sum_over_heads(experts, [&](std::int64_t e) { return dz[e] * s[e]; });
  const std::int64_t row = t * g.shape.heads * d;
  for (std::int64_t j = lane; j < shared * d; j += device::kWarp)
    g.dq[row + head_at(g.shape, j / d) * d + j % d] = 0.0F;
  for (std::int64_t j = lane; j < experts * d; j += device::kWarp) {
    const std::int64_t e = j / d, at = row + head_at(g.shape, shared + e) * d + j % d;
    const float ds = u == 0.0F ? 0.0F : dz[e] * u - along * u * u * u * (s[e] - mean) / (count - 1.0F);
    g.dq[at] = s[e] > 0.0F ? ds / s[e] * static_cast<float>(g.q[at]) : 0.0F;
  }
}

}  // namespace

template <class Backend, class T>
void QueryNormKernels<Backend, T>::forward(const QueryNormShape& shape, const T* q, Acc<T>* norms,
                                           Acc<T>* inverse_std, Acc<T>* logits) {
  cuda::launch("query_norm", query_norm_kernel<T>,
               {.blocks_x = item_blocks(shape.tokens), .threads = kItemThreads}, shape, q, norms, inverse_std,
               logits);
}

// With u = 1 / std: ds_e = dz_e u - u^3 (s_e - mean s) / (n - 1) sum_j dz_j s_j, and dq = ds q / s.
template <class Backend, class T>
void QueryNormKernels<Backend, T>::backward(const QueryNormShape& shape, const T* q, const Acc<T>* norms,
                                            const Acc<T>* inverse_std, const Acc<T>* d_logits, T* dq) {
  const QueryNormGradient<T> gradient{shape, q, norms, inverse_std, d_logits, dq};
  cuda::launch("query_norm_gradient", query_norm_gradient_kernel<T>,
               {.blocks_x = item_blocks(shape.tokens), .threads = kItemThreads}, gradient);
}

template struct QueryNormKernels<Cuda, float>;
template struct QueryNormKernels<Cuda, bfloat16>;

}  // namespace moh
