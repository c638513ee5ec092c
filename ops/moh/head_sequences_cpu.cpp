#include "ops/moh/head_rows_cpu.h"
#include "ops/moh/head_sequences_kernels.h"

namespace moh {
namespace {

/// Calls visit(row, pair) for the rows that have a pair, in parallel, and without_pair(row) for the others.
template <class Visit, class WithoutPair>
[[gnu::always_inline]] inline void for_each_row(const PairRows& of, const Visit& visit,
                                                const WithoutPair& without_pair) {
  parallel_for(of.rows, row_grain(of.rows, of.head_dim), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (of.pairs[r] >= 0) {
        visit(r, of.pairs[r]);
      } else {
        without_pair(r);
      }
    }
  });
}

}  // namespace

template <class Backend, class T>
void PairRowKernels<Backend, T>::gather(const T* x, T* y, const PairRows& of) {
  const std::int64_t d = of.head_dim;
  for_each_row(
      of,
      [=](std::int64_t row, std::int64_t pair) {
        __builtin_memcpy(static_cast<void*>(y + row * d), x + pair * d,
                         static_cast<std::size_t>(d) * sizeof(T));
      },
      [=](std::int64_t row) { clear_row(y + row * d, d); });
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter(const T* y, const Acc<T>* gates, T* x, const PairRows& of) {
  const std::int64_t d = of.head_dim;
  for_each_row(
      of,
      [=](std::int64_t row, std::int64_t pair) {
        scale_row(y + row * d, gates ? gates[pair] : Acc<T>(1), x + pair * d, d);
      },
      [](std::int64_t) {});
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                  Acc<T>* d_gates, const PairRows& of) {
  const std::int64_t d = of.head_dim;
  for_each_row(
      of,
      [=](std::int64_t row, std::int64_t pair) {
        d_gates[pair] = gated_row_backward(dx + pair * d, y + row * d, gates[pair], dy + row * d, d);
      },
      [=](std::int64_t row) { clear_row(dy + row * d, d); });
}

template struct PairRowKernels<cpu::MOH_ISA, float>;
template struct PairRowKernels<cpu::MOH_ISA, bfloat16>;
template struct PairRowKernels<cpu::MOH_ISA, double>;

}  // namespace moh
