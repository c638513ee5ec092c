#include "core/cpu_isa.h"
#include "ops/activation/gelu_cpu.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/linalg/gelu_mlp_kernels.h"

namespace moh {

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::forward(const T* product, const T* b, T* h, T* y, Rows rows, GeluForm form) {
  using A = Acc<T>;
  if (h == nullptr) h = y;  // overwritten below
  const auto run = [=](auto gelu, auto bias) {
    parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = product + i * rows.width;
        T *hi = h + i * rows.width, *yi = y + i * rows.width;
        // Two loops over a part that fits in L1: fused into one, they do not vectorise for bfloat16.
#pragma omp simd
        for (std::int64_t j = 0; j < rows.width; ++j) hi[j] = A(from[j]) + bias(j);
#pragma omp simd
        for (std::int64_t j = 0; j < rows.width; ++j) yi[j] = gelu(A(hi[j])).value;
      }
    });
  };
  with_gelu(form, [=](auto gelu) {
    if (b == nullptr) return run(gelu, [](std::int64_t) { return A(0); });
    run(gelu, [=](std::int64_t j) { return A(b[j]); });
  });
}

template <class Backend, class T>
void GeluMlpKernels<Backend, T>::backward(T* dy, T* h, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  with_gelu(form, [=](auto gelu) {
    for_each_element(count, [=](std::int64_t i) {
      const GeluAt<A> g = gelu(A(h[i]));
      dy[i] = A(dy[i]) * g.slope;
      h[i] = g.value;
    });
  });
}

template struct GeluMlpKernels<cpu::MOH_ISA, float>;
template struct GeluMlpKernels<cpu::MOH_ISA, bfloat16>;
template struct GeluMlpKernels<cpu::MOH_ISA, double>;

}  // namespace moh
