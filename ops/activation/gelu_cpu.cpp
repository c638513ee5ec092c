#include "ops/activation/gelu_cpu.h"

#include "core/cpu_isa.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void GeluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu<T>(form, [=](auto gelu) {
    for_each_vector<A>(count, [=](auto at) { at.store(y, gelu(at.load(x)).value); });
  });
}

template <class Backend, class T>
void GeluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu<T>(form, [=](auto gelu) {
    for_each_vector<A>(count, [=](auto at) { at.store(dx, at.load(dy) * gelu(at.load(x)).slope); });
  });
}

MOH_MATRIX_KERNELS(GeluKernels)

}  // namespace moh
