#include <cmath>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/rope/norm_rope_kernels.h"

namespace moh {

template <class Backend, class T>
void NormRopeKernels<Backend, T>::forward(const NormRopeOperands<T>& of, T* y, Acc<T>* r, RopeSizes sizes,
                                          double eps) {
  using A = Acc<T>;
  const std::int64_t half = sizes.half, width = 2 * half, rows = sizes.batch * sizes.positions * sizes.heads;
  const T *x = of.x, *w = of.w;
  const A *cos = of.cos, *sin = of.sin;
  parallel_for(rows, row_grain(rows, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t position = sizes.row(row / sizes.heads);
      const A *c = cos + position * half, *s = sin + position * half;
      const T* from = x + row * width;
      T* to = y + row * width;
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t j = 0; j < width; ++j) squares += A(from[j]) * A(from[j]);
      const A scale = A(1) / std::sqrt(squares / A(width) + A(eps));
      r[row] = scale;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const A first = A(from[i]) * scale * A(w[i]), second = A(from[i + half]) * scale * A(w[i + half]);
        to[i] = first * c[i] - second * s[i];
        to[i + half] = second * c[i] + first * s[i];
      }
    }
  });
}

// With dn, the gradient of the normalised head, which is dy turned back: as in rms_norm, s = sum_j dn_j w_j
// x_j, dx_j = r (dn_j w_j - x_j r^2 s / d), dw_j = sum over heads of dn_j x_j r.
template <class Backend, class T>
void NormRopeKernels<Backend, T>::backward(const T* dy, const NormRopeOperands<T>& of, const Acc<T>* r, T* dx,
                                           Acc<T>* dw, RopeSizes sizes) {
  using A = Acc<T>;
  const std::int64_t half = sizes.half, width = 2 * half, rows = sizes.batch * sizes.positions * sizes.heads;
  const T *x = of.x, *w = of.w;
  const A *cos = of.cos, *sin = of.sin;
  sum_over_rows<A>(rows, width, dw, [=](std::int64_t row, A* dw_partial) {
    const std::int64_t position = sizes.row(row / sizes.heads);
    const A *c = cos + position * half, *s = sin + position * half;
    const T *xi = x + row * width, *dyi = dy + row * width;
    T* dxi = dx + row * width;
    const A scale = r[row];
    A dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < half; ++i) {
      const A first = A(dyi[i]) * c[i] + A(dyi[i + half]) * s[i];
      const A second = A(dyi[i + half]) * c[i] - A(dyi[i]) * s[i];
      const A along_first = first * A(xi[i]), along_second = second * A(xi[i + half]);
      dot += along_first * A(w[i]) + along_second * A(w[i + half]);
      dw_partial[i] += along_first * scale;
      dw_partial[i + half] += along_second * scale;
    }
    const A shrink = scale * scale * dot / A(width);
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
      const A first = A(dyi[i]) * c[i] + A(dyi[i + half]) * s[i];
      const A second = A(dyi[i + half]) * c[i] - A(dyi[i]) * s[i];
      dxi[i] = scale * (first * A(w[i]) - A(xi[i]) * shrink);
      dxi[i + half] = scale * (second * A(w[i + half]) - A(xi[i + half]) * shrink);
    }
  });
}

template struct NormRopeKernels<cpu::MOH_ISA, float>;
template struct NormRopeKernels<cpu::MOH_ISA, bfloat16>;
template struct NormRopeKernels<cpu::MOH_ISA, double>;

}  // namespace moh
