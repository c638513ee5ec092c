#include "ops/activation/gelu_cpu.h"

#include "core/cpu_isa.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/cpu/elementwise.h"

namespace moh {

template <class Backend, class T>
void GeluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu(form,
            [=](auto gelu) { for_each_element(count, [=](std::int64_t i) { y[i] = gelu(A(x[i])).value; }); });
}

template <class Backend, class T>
void GeluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu(form, [=](auto gelu) {
    for_each_element(count, [=](std::int64_t i) { dx[i] = A(dy[i]) * gelu(A(x[i])).slope; });
  });
}

template struct GeluKernels<cpu::MOH_ISA, float>;
template struct GeluKernels<cpu::MOH_ISA, bfloat16>;
template struct GeluKernels<cpu::MOH_ISA, double>;

}  // namespace moh
