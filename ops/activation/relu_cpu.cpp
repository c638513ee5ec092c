#include "core/cpu_isa.h"
#include "ops/activation/relu_kernels.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void ReluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) { at.store(y, larger<A>(Vec<A>{}, at.load(x))); });
}

template <class Backend, class T>
void ReluKernels<Backend, T>::backward(const T* dy, const T* y, T* dx, std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) { at.store(dx, at.load(y) > A(0) ? at.load(dy) : Vec<A>{}); });
}

template struct ReluKernels<cpu::MOH_ISA, float>;
template struct ReluKernels<cpu::MOH_ISA, bfloat16>;
template struct ReluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
