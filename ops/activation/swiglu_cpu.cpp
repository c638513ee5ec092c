#include "core/cpu_isa.h"
#include "ops/activation/swiglu_kernels.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"

namespace moh {

template <class Backend, class T>
void SwigluKernels<Backend, T>::forward(const T* gate, const T* up, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) {
    const A g = A(gate[i]);
    y[i] = g * sigmoid_of(g).value * A(up[i]);
  });
}

// With g the gate and s = sigmoid(g): dup = dy g s, dgate = dy up s (1 + g (1 - s)).
template <class Backend, class T>
void SwigluKernels<Backend, T>::backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup,
                                         std::int64_t count) {
  using A = Acc<T>;
  for_each_element(count, [=](std::int64_t i) {
    const A g = A(gate[i]), dyi = A(dy[i]);
    const Sigmoid<A> s = sigmoid_of(g);
    dup[i] = dyi * g * s.value;
    dgate[i] = dyi * A(up[i]) * s.value * (A(1) + g * s.rest);
  });
}

template struct SwigluKernels<cpu::MOH_ISA, float>;
template struct SwigluKernels<cpu::MOH_ISA, bfloat16>;
template struct SwigluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
