#include "core/cpu_isa.h"
#include "ops/elementwise/mean_of_kernels.h"

namespace moh {

template <class Backend, class T>
void MeanOfKernels<Backend, T>::add_up(const Scalars<T>& scalars, const T* before, Acc<T> factor, T* sum) {
  Acc<T> all = before != nullptr ? Acc<T>(*before) : Acc<T>(0);
  for (int i = 0; i < scalars.count; ++i) all += Acc<T>(*scalars.at[i]);
  *sum = T(factor * all);
}

template struct MeanOfKernels<cpu::MOH_ISA, float>;
template struct MeanOfKernels<cpu::MOH_ISA, bfloat16>;
template struct MeanOfKernels<cpu::MOH_ISA, double>;

}  // namespace moh
