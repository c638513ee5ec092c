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

namespace {

/// partial += the rows [begin, begin + kRows) of dy, in their order.
template <int kRows, class T>
[[gnu::always_inline]] inline void add_rows(const T* dy, std::int64_t begin, std::int64_t stride,
                                            std::int64_t width, Acc<T>* partial) {
  using A = Acc<T>;
  for_vectors_in<A>(0, width, [=](auto at) {
    Vec<A> sum = at.load_cached(partial);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum += at.load(dy + (begin + r) * stride);
    at.store(partial, sum);
  });
}

}  // namespace

template <class Backend, class T>
void LinearKernels<Backend, T>::sum_rows(const T* dy, Acc<T>* db, Rows rows, std::int64_t stride) {
  constexpr int kTogether = 4;  // fewer stores than with each row on its own
  const std::int64_t width = rows.width;
  sum_over_chunks<Acc<T>>(rows.count, row_grain(rows.count, width), width, db,
                          [=](std::int64_t begin, std::int64_t end, Acc<T>* partial) {
                            std::int64_t i = begin;
                            for (; i + kTogether <= end; i += kTogether)
                              add_rows<kTogether>(dy, i, stride, width, partial);
                            for (; i < end; ++i) add_rows<1>(dy, i, stride, width, partial);
                          });
}

template struct LinearKernels<cpu::MOH_ISA, float>;
template struct LinearKernels<cpu::MOH_ISA, bfloat16>;
template struct LinearKernels<cpu::MOH_ISA, double>;

}  // namespace moh
