#include "core/cpu_isa.h"
#include "ops/activation/swiglu_kernels.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"

namespace moh {

template <class Backend, class T>
void SwigluKernels<Backend, T>::forward(const T* gate, const T* up, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) {
    const Vec<A> g = at.load(gate);
    at.store(y, g * sigmoid_of(g).value * at.load(up));
  });
}

// With g the gate and s = sigmoid(g): dup = dy g s, dgate = dy up s (1 + g (1 - s)).
template <class Backend, class T>
void SwigluKernels<Backend, T>::backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup,
                                         std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) {
    const Vec<A> g = at.load(gate), upi = at.load(up);
    const Sigmoid<A> s = sigmoid_of(g);
    const Vec<A> part = at.load(dy) * s.value;
    at.store(dup, part * g);
    at.store(dgate, part * upi * (A(1) + g * s.rest));
  });
}

template struct SwigluKernels<cpu::MOH_ISA, float>;
template struct SwigluKernels<cpu::MOH_ISA, bfloat16>;
template struct SwigluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
