#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/elementwise/scale_kernels.h"

namespace moh {

template <class Backend, class T>
void ScaleKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, Acc<T> factor) {
  for_each_vector<Acc<T>>(count, [=](auto at) { at.store(y, factor * at.load(x)); });
}

template struct ScaleKernels<cpu::MOH_ISA, float>;
template struct ScaleKernels<cpu::MOH_ISA, bfloat16>;
template struct ScaleKernels<cpu::MOH_ISA, double>;

}  // namespace moh
