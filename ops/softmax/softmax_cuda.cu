#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/softmax/softmax_kernels.h"

namespace moh {

namespace {

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void softmax_kernel(RowAccess<const T> x, RowAccess<T> y) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = x.width;
  const RowAccess<const T> from = x.at(i);
  const ExpSum exp_sum = exp_sum_of(from, device::shared_memory<ReduceSpace<float>>());
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    from.load(first, values);
    for (int j = 0; j < kPack; ++j) values[j] = expf(values[j] - exp_sum.top) / exp_sum.sum;
    y.at(i).store(first, values);
  });
}

/// dx = y (dy - <y, dy>), one block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void softmax_gradient_kernel(RowAccess<const T> dy, RowAccess<const T> y, RowAccess<T> dx) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = y.width;
  float dot = 0;
  each_piece<T>(width, [&](std::int64_t first) {
    float p[kPack], dp[kPack];
    y.at(i).load(first, p);
    dy.at(i).load(first, dp);
    for (int j = 0; j < kPack; ++j) dot += p[j] * dp[j];
  });
  dot = reduce_block(dot, Sum{}, device::shared_memory<ReduceSpace<float>>()->values);
  each_piece<T>(width, [&](std::int64_t first) {
    float p[kPack], dp[kPack];
    y.at(i).load(first, p);
    dy.at(i).load(first, dp);
    for (int j = 0; j < kPack; ++j) p[j] *= dp[j] - dot;
    dx.at(i).store(first, p);
  });
}

}  // namespace

template <class Backend, class T>
void SoftmaxKernels<Backend, T>::forward(const T* x, T* y, Rows rows) {
  cuda::launch("softmax", softmax_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = 2 * sizeof(ReduceSpace<float>)},
               rows_at(x, rows.width), rows_at(y, rows.width));
}

template <class Backend, class T>
void SoftmaxKernels<Backend, T>::backward(const T* dy, const T* y, T* dx, Rows rows) {
  cuda::launch("softmax_gradient", softmax_gradient_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = sizeof(ReduceSpace<float>)},
               rows_at(dy, rows.width), rows_at(y, rows.width), rows_at(dx, rows.width));
}

template struct SoftmaxKernels<Cuda, float>;
template struct SoftmaxKernels<Cuda, bfloat16>;

}  // namespace moh
