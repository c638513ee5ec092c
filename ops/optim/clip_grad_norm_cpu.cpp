#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "core/parallel.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

template <class Backend, class T>
void GradNormKernels<Backend, T>::sum_squares(const GradChunk<T>* chunks, std::int64_t num_chunks,
                                              double* sums, const T* one) {
  parallel_for(num_chunks, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const T* grad = one == nullptr ? chunks[chunk].grad : one + chunk * kOptimizerChunk;
      double sum = 0.0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < chunks[chunk].count; ++i) {
        const auto g = static_cast<double>(Acc<T>(grad[i]));
        sum += g * g;
      }
      sums[chunk] = sum;
    }
  });
}

template struct GradNormKernels<cpu::MOH_ISA, float>;
template struct GradNormKernels<cpu::MOH_ISA, bfloat16>;
template struct GradNormKernels<cpu::MOH_ISA, double>;

}  // namespace moh
