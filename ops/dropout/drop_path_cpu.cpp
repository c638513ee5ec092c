#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/dropout/drop_path_kernels.h"

namespace moh {

template <class Backend, class T>
void DropPathKernels<Backend, T>::apply(const T* x, const T* addend, T* y, Rows samples, DropoutMask mask) {
  using A = Acc<T>;
  const std::int64_t count = samples.count, width = samples.width;
  parallel_for(count, row_grain(count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const T* from = x + b * width;
      T* to = y + b * width;
      const A factor = static_cast<A>(factor_of(mask, b));
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) to[i] = A(from[i]) * factor;
      if (addend == nullptr) continue;
      const T* added = addend + b * width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) to[i] = A(added[i]) + A(to[i]);
    }
  });
}

template struct DropPathKernels<cpu::MOH_ISA, float>;
template struct DropPathKernels<cpu::MOH_ISA, bfloat16>;
template struct DropPathKernels<cpu::MOH_ISA, double>;

}  // namespace moh
