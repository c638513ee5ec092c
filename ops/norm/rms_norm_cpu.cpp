#include <cmath>
#include <type_traits>

#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/norm/rms_norm_kernels.h"

namespace moh {

template <class Backend, class T>
void RmsNormKernels<Backend, T>::forward(const T* x, const NormAddend<T>& add, const T* w, T* y, Acc<T>* r,
                                         Rows rows, double eps) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * width;
      T* yi = y + i * width;
      if (add.addend != nullptr) {
        const T* ai = add.addend + i * width;
        T* sum = add.sum + i * width;
        for_vectors_in<A>(0, width, [=](auto at) { at.store(sum, at.load(xi) + at.load(ai)); });
        xi = sum;
      }
      Vec<A> squares{};
      for_vectors_in<A>(0, width, [&](auto at) {
        const Vec<A> xj = at.load(xi);
        squares += xj * xj;
      });
      const A ri = A(1) / std::sqrt(sum_lanes<A>(squares) / A(width) + A(eps));
      r[i] = ri;
      for_vectors_in<A>(0, width,
                        [=](auto at) { at.store(yi, at.load_cached(xi) * ri * at.load_cached(w)); });
    }
  });
}

// With s = sum_j dy_j w_j x_j of a row: dx_j = r (dy_j w_j - x_j r^2 s / D) + dsum_j, dw_j = sum over rows of
// dy_j x_j r.
template <class Backend, class T>
void RmsNormKernels<Backend, T>::backward(const T* dy, const T* dsum, const T* x, const T* w, const Acc<T>* r,
                                          T* dx, Acc<T>* dw, Rows rows) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  const auto backward_row = [=]<bool kSums>(std::bool_constant<kSums>, std::int64_t i, A* dw_partial) {
    const T* xi = x + i * width;
    const T* dyi = dy + i * width;
    T* dxi = dx + i * width;
    const A ri = r[i];
    Vec<A> s{};
    for_vectors_in<A>(0, width, [&](auto at) {
      const Vec<A> dyj = at.load(dyi), xj = at.load(xi);
      s += dyj * at.load_cached(w) * xj;
      if constexpr (kSums) at.store(dw_partial, at.load_cached(dw_partial) + dyj * xj * ri);
    });
    const A shrink = ri * ri * sum_lanes<A>(s) / A(width);
    const auto gradient = [=](auto at) {
      return ri * (at.load_cached(dyi) * at.load_cached(w) - at.load_cached(xi) * shrink);
    };
    if (dsum == nullptr) {
      for_vectors_in<A>(0, width, [=](auto at) { at.store(dxi, gradient(at)); });
    } else {
      const T* dsumi = dsum + i * width;
      for_vectors_in<A>(0, width, [=](auto at) { at.store(dxi, gradient(at) + at.load(dsumi)); });
    }
  };
  if (dw != nullptr) {
    return sum_over_rows<A>(rows.count, width, dw, [=](std::int64_t i, A* dw_partial) {
      backward_row(std::true_type(), i, dw_partial);
    });
  }
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) backward_row(std::false_type(), i, nullptr);
  });
}

MOH_MATRIX_KERNELS(RmsNormKernels)

}  // namespace moh
