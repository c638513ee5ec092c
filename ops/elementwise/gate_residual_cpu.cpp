#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/elementwise/gate_residual_kernels.h"

namespace moh {

template <class Backend, class T>
void GateResidualKernels<Backend, T>::forward(const T* residual, const T* x, const T* gate, T* y,
                                              GatedRows gated) {
  using A = Acc<T>;
  const std::int64_t count = gated.rows.count, width = gated.rows.width;
  parallel_for(count, row_grain(count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T *from = residual + i * width, *xi = x + i * width;
      const T* gates = gate + i / (count / gated.groups) * gated.stride;
      T* yi = y + i * width;
      for_vectors_in<A>(0, width,
                        [=](auto at) { at.store(yi, at.load(from) + at.load_cached(gates) * at.load(xi)); });
    }
  });
}

template <class Backend, class T>
void GateResidualKernels<Backend, T>::backward(const T* dy, const T* x, const T* gate, T* dx,
                                               const GradientDestination<T>& dgate, GatedRows gated) {
  using A = Acc<T>;
  const std::int64_t count = gated.rows.count, width = gated.rows.width;
  const RowGroups groups{gated.groups, count, gated.stride};
  sum_over_groups<A>(groups, width, dgate.overwritten, [=](std::int64_t group, std::int64_t i, A* sums) {
    const T *dyi = dy + i * width, *xi = x + i * width, *gates = gate + group * gated.stride;
    T* dxi = dx + i * width;
    for_vectors_in<A>(0, width, [=](auto at) {
      const Vec<A> dyj = at.load(dyi);
      at.store(sums, at.load_cached(sums) + dyj * at.load(xi));
      at.store(dxi, dyj * at.load_cached(gates));
    });
  });
}

MOH_MATRIX_KERNELS(GateResidualKernels)

}  // namespace moh
