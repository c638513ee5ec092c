#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

/// One block per chunk.
template <class T>
MOH_KERNEL(kBlockThreads)
void sum_squares_kernel(const GradChunk<T>* chunks, double* sums, const T* grad) {
  GradChunk<T> at = chunks[device::block_x()];
  if (grad != nullptr) at.grad = grad + device::block_x() * kOptimizerChunk;
  double own = 0;
  for (std::int64_t i = device::thread_x(); i < at.count; i += device::block_threads()) {
    const double g = static_cast<double>(static_cast<float>(at.grad[i]));
    own += g * g;
  }
  own = reduce_block(own, Sum{}, device::shared_memory<double>());
  if (device::thread_x() == 0) sums[device::block_x()] = own;
}

}  // namespace

template <class Backend, class T>
void GradNormKernels<Backend, T>::sum_squares(const GradChunk<T>* chunks, std::int64_t num_chunks,
                                              double* sums, const T* grad) {
  cuda::launch("sum_squares", sum_squares_kernel<T>,
               {.blocks_x = num_chunks,
                .threads = kBlockThreads,
                .shared_bytes = kBlockSumBytes<double>,
                .indirect = true},
               chunks, sums, grad);
}

template struct GradNormKernels<Cuda, float>;
template struct GradNormKernels<Cuda, bfloat16>;

}  // namespace moh
