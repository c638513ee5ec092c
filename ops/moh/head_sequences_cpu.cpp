#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
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

template <class T>
[[gnu::always_inline]] inline void clear_row(T* to, std::int64_t d) {
  __builtin_memset(static_cast<void*>(to), 0, static_cast<std::size_t>(d) * sizeof(T));
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
        const Acc<T> gate = gates ? gates[pair] : Acc<T>(1);
        const T* from = y + row * d;
        T* const to = x + pair * d;
        for_vectors_in<Acc<T>>(0, d, [=](auto at) { at.store(to, gate * at.load(from)); });
      },
      [](std::int64_t) {});
}

template <class Backend, class T>
void PairRowKernels<Backend, T>::scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy,
                                                  Acc<T>* d_gates, const PairRows& of) {
  using A = Acc<T>;
  const std::int64_t d = of.head_dim;
  for_each_row(
      of,
      [=](std::int64_t row, std::int64_t pair) {
        const T *from = dx + pair * d, *output = y + row * d;
        T* const to = dy + row * d;
        const A gate = gates[pair];
        Vec<A> sum{};
        for_vectors_in<A>(0, d, [&](auto at) {
          const Vec<A> gradient = at.load(from);
          sum += gradient * at.load(output);
          at.store(to, gate * gradient);
        });
        d_gates[pair] = sum_lanes<A>(sum);
      },
      [=](std::int64_t row) { clear_row(dy + row * d, d); });
}

template struct PairRowKernels<cpu::MOH_ISA, float>;
template struct PairRowKernels<cpu::MOH_ISA, bfloat16>;
template struct PairRowKernels<cpu::MOH_ISA, double>;

}  // namespace moh
