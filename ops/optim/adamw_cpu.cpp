#include <cmath>
#include <type_traits>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/optim/adamw_kernels.h"

namespace moh {

template <class Backend, class T>
void AdamWKernels<Backend, T>::update(const AdamWChunk<T>* chunks, std::int64_t count,
                                      const AdamWCoefficients<Acc<T>>* coefficients, const Acc<T>* keep,
                                      const std::int32_t* go) {
  using A = Acc<T>;
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<A> c = *coefficients;
  parallel_for(count, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const AdamWChunk<T> at = chunks[chunk];
      const A kept = keep[at.decay];
#pragma omp simd
      for (std::int64_t i = 0; i < at.count; ++i) {
        const A g = c.grad_scale * at.grad[i];
        const A m = c.beta1 * at.exp_avg[i] + c.one_minus_beta1 * g;
        const A v = c.beta2 * at.exp_avg_sq[i] + c.one_minus_beta2 * (g * g);
        at.exp_avg[i] = m;
        at.exp_avg_sq[i] = v;
        const A move = c.step_size * (m / (std::sqrt(v) * c.root_scale + c.epsilon));
        if constexpr (std::is_same_v<T, bfloat16>) {
          const A p = at.master[i] * kept - move;
          at.master[i] = p;
          at.value[i] = p;
        } else {
          at.value[i] = at.value[i] * kept - move;
        }
      }
    }
  });
}

template struct AdamWKernels<cpu::MOH_ISA, float>;
template struct AdamWKernels<cpu::MOH_ISA, bfloat16>;
template struct AdamWKernels<cpu::MOH_ISA, double>;

}  // namespace moh
