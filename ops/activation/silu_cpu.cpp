#include "core/cpu_isa.h"
#include "ops/activation/silu_kernels.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"

namespace moh {

template <class Backend, class T>
void SiluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) { y[i] = A(x[i]) * sigmoid_of(A(x[i])).value; });
}

// With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
template <class Backend, class T>
void SiluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) {
    const Sigmoid<A> s = sigmoid_of(A(x[i]));
    dx[i] = A(dy[i]) * s.value * (A(1) + A(x[i]) * s.rest);
  });
}

template struct SiluKernels<cpu::MOH_ISA, float>;
template struct SiluKernels<cpu::MOH_ISA, bfloat16>;
template struct SiluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
