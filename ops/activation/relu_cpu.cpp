#include "core/cpu_isa.h"
#include "ops/activation/relu_kernels.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void ReluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) { y[i] = A(x[i]) < A(0) ? A(0) : A(x[i]); });
}

template <class Backend, class T>
void ReluKernels<Backend, T>::backward(const T* dy, const T* y, T* dx, std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) { dx[i] = A(y[i]) > A(0) ? A(dy[i]) : A(0); });
}

template struct ReluKernels<cpu::MOH_ISA, float>;
template struct ReluKernels<cpu::MOH_ISA, bfloat16>;
template struct ReluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
