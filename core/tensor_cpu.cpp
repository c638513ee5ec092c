#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "core/tensor_kernels.h"

namespace moh {

template <class Backend, class From, class To>
void TensorKernels<Backend, From, To>::convert(const From* from, To* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Acc<To>>(from[i]);
}

template <class Backend, class From, class To>
void TensorKernels<Backend, From, To>::add(const From* from, To* to, std::int64_t count) {
  using Sum = Acc<To>;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Sum>(to[i]) + static_cast<Sum>(from[i]);
}

#define MOH_KERNELS_FROM(From)                                 \
  template struct TensorKernels<cpu::MOH_ISA, From, float>;    \
  template struct TensorKernels<cpu::MOH_ISA, From, bfloat16>; \
  template struct TensorKernels<cpu::MOH_ISA, From, double>;
MOH_KERNELS_FROM(float)
MOH_KERNELS_FROM(bfloat16)
MOH_KERNELS_FROM(double)
#undef MOH_KERNELS_FROM

}  // namespace moh
