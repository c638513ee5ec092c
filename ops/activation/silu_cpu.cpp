#include "core/cpu_isa.h"
#include "ops/activation/silu_kernels.h"
#include "ops/cpu/brief_math.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void SiluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) {
    const Vec<A> xi = at.load(x);
    at.store(y, xi * sigmoid_for<T>(xi).value);
  });
}

// With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
template <class Backend, class T>
void SiluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count) {
  using A = Acc<T>;
  for_each_vector<A>(count, [=](auto at) {
    const Vec<A> xi = at.load(x);
    const Sigmoid<A> s = sigmoid_for<T>(xi);
    at.store(dx, at.load(dy) * s.value * (A(1) + xi * s.rest));
  });
}

MOH_MATRIX_KERNELS(SiluKernels)

}  // namespace moh
