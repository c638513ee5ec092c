#include "ops/linalg/linear_kernels.h"

#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"

namespace moh {

template <class Backend, class T>
void LinearKernels<Backend, T>::add_bias(const T* b, T* y, Rows rows, std::int64_t stride) {
  using A = Acc<T>;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* yi = y + i * stride;
      for_vectors_in<A>(0, rows.width, [=](auto at) { at.store(yi, at.load(yi) + at.load_cached(b)); });
    }
  });
}

template <class Backend, class T>
void LinearKernels<Backend, T>::sum_rows(const T* dy, Acc<T>* db, Rows rows, std::int64_t stride) {
  using A = Acc<T>;
  sum_over_rows<A>(rows.count, rows.width, db, [=](std::int64_t i, A* partial) {
    const T* dyi = dy + i * stride;
    for_vectors_in<A>(0, rows.width,
                      [=](auto at) { at.store(partial, at.load_cached(partial) + at.load(dyi)); });
  });
}

template struct LinearKernels<cpu::MOH_ISA, float>;
template struct LinearKernels<cpu::MOH_ISA, bfloat16>;
template struct LinearKernels<cpu::MOH_ISA, double>;

}  // namespace moh
