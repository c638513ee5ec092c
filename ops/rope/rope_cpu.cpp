#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/rope/rope_kernels.h"

namespace moh {

template <class Backend, class T>
void RopeKernels<Backend, T>::rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                                     RopeSizes sizes) {
  using A = Acc<T>;
  const std::int64_t tokens = sizes.batch * sizes.positions, half = sizes.half;
  const std::int64_t width = sizes.heads * half * 2;
  parallel_for(tokens, row_grain(tokens, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const A* c = cos + sizes.row(token) * half;
      const A* s = sin + sizes.row(token) * half;
      const std::int64_t row = token * sizes.row_heads;
      for (std::int64_t head = row; head < row + sizes.heads; ++head) {
        if (sizes.leaves(token, head - row)) continue;
        const T* from = x + head * half * 2;
        T* to = y + head * half * 2;
#pragma omp simd
        for (std::int64_t i = 0; i < half; ++i) {
          const A first = A(from[i]), second = A(from[i + half]), sine = direction * s[i];
          to[i] = first * c[i] - second * sine;
          to[i + half] = second * c[i] + first * sine;
        }
      }
    }
  });
}

template struct RopeKernels<cpu::MOH_ISA, float>;
template struct RopeKernels<cpu::MOH_ISA, bfloat16>;
template struct RopeKernels<cpu::MOH_ISA, double>;

}  // namespace moh
