#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/elementwise/add_kernels.h"

namespace moh {

template <class Backend, class T>
void AddKernels<Backend, T>::forward(const T* a, const T* b, T* y, std::int64_t count) {
  for_each_vector<Acc<T>>(count, [=](auto at) { at.store(y, at.load(a) + at.load(b)); });
}

template struct AddKernels<cpu::MOH_ISA, float>;
template struct AddKernels<cpu::MOH_ISA, bfloat16>;
template struct AddKernels<cpu::MOH_ISA, double>;

}  // namespace moh
