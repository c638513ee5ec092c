#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/elementwise/gate_residual_kernels.h"

namespace moh {

template <class Backend, class T>
void GateResidualKernels<Backend, T>::forward(const T* residual, const T* x, const T* gate, T* y,
                                              GatedRows at) {
  using A = Acc<T>;
  const std::int64_t count = at.rows.count, width = at.rows.width;
  parallel_for(count, row_grain(count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * width;
      const T* gates = gate + i / (count / at.groups) * at.stride;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j)
        y[first + j] = A(residual[first + j]) + A(gates[j]) * A(x[first + j]);
    }
  });
}

template <class Backend, class T>
void GateResidualKernels<Backend, T>::backward(const T* dy, const T* x, const T* gate, T* dx, Acc<T>* dgate,
                                               GatedRows at) {
  using A = Acc<T>;
  const std::int64_t count = at.rows.count, width = at.rows.width;
  const RowGroups groups{at.groups, count, at.stride};
  sum_over_groups<A>(groups, width, dgate, [=](std::int64_t group, std::int64_t i, A* sums) {
    const std::int64_t first = i * width;
    const T* gates = gate + group * at.stride;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) {
      sums[j] += A(dy[first + j]) * A(x[first + j]);
      dx[first + j] = A(dy[first + j]) * A(gates[j]);
    }
  });
}

template struct GateResidualKernels<cpu::MOH_ISA, float>;
template struct GateResidualKernels<cpu::MOH_ISA, bfloat16>;
template struct GateResidualKernels<cpu::MOH_ISA, double>;

}  // namespace moh
