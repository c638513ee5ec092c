#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "ops/attention/position_bias_kernels.h"

namespace moh {

namespace {

/// to[j, i] = from[i, j]
template <class F, class S>
[[gnu::always_inline]] inline void transpose(const S* from, F* to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

}  // namespace

template <class Backend, class T>
void PositionBiasKernels<Backend, T>::forward(const T* table, const std::int64_t* index, T* y,
                                              PositionBiasShape s) {
  constexpr std::int64_t kGrain = 4096;
  parallel_for(s.pairs, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = begin; i < end; ++i) y[h * s.pairs + i] = table[index[i] * s.heads + h];
    }
  });
}

// A head's sums lie together while they grow.
template <class Backend, class T>
void PositionBiasKernels<Backend, T>::backward(const T* dy, const std::int64_t* index, Acc<T>* dtable,
                                               PositionBiasShape s) {
  using A = Acc<T>;
  const Scratch scratch(static_cast<std::size_t>(s.rows * s.heads) * sizeof(A));
  A* sums = scratch.as<A>();
  parallel_for(s.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      A* of_head = sums + h * s.rows;
      for (std::int64_t r = 0; r < s.rows; ++r) of_head[r] = A(0);
      for (std::int64_t i = 0; i < s.pairs; ++i) of_head[index[i]] += A(dy[h * s.pairs + i]);
    }
  });
  transpose(sums, dtable, s.heads, s.rows);
}

template struct PositionBiasKernels<cpu::MOH_ISA, float>;
template struct PositionBiasKernels<cpu::MOH_ISA, bfloat16>;
template struct PositionBiasKernels<cpu::MOH_ISA, double>;

}  // namespace moh
