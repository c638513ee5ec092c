#include <cmath>
#include <type_traits>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"
#include "ops/optim/muon_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::momentum(const G* grad, A* exp_avg, A* u, A* squares, std::int64_t count,
                                          const AdamWCoefficients<A>* coefficients, const std::int32_t* go) {
  const AdamWCoefficients<A> c = *coefficients;
  const bool keeps = go == nullptr || *go != 0;
  parallel_for(count, kOptimizerChunk, [=](std::int64_t begin, std::int64_t end) {
    Vec<A> sum{};
    for_vectors_in<A>(begin, end, [&](auto at) {
      const Vec<A> g = c.grad_scale * at.load(grad);
      const Vec<A> m = c.momentum * at.load(exp_avg) + c.one_minus_momentum * g;
      const Vec<A> direction = at.masked(Vec<A>(c.momentum * m + c.one_minus_momentum * g));
      if (keeps) at.store(exp_avg, m);
      at.store(u, direction);
      sum += direction * direction;
    });
    squares[begin / kOptimizerChunk] = sum_lanes<A>(sum);
  });
}

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::normalise(A* u, const A* squares, std::int64_t count) {
  A all = 0;
  for (std::int64_t i = 0; i < muon_parts(count, kOptimizerChunk); ++i) all += squares[i];
  const A factor = A(1) / (std::sqrt(all) + A(1e-7));
  for_each_vector<A>(count, [=](auto at) { at.store(u, factor * at.load(u)); });
}

template <class Backend, class T, class G>
void MuonKernels<Backend, T, G>::apply(T* value, A* master, const A* direction, A length, std::int64_t count,
                                       const AdamWRate<A>* rate, const std::int32_t* go) {
  if (go != nullptr && *go == 0) return;
  const A keep = rate->keep, step = rate->step_size * length;
  for_each_vector<A>(count, [=](auto at) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      const Vec<A> p = at.load(master) * keep - step * at.load(direction);
      at.store(master, p);
      at.store(value, p);
    } else {
      at.store(value, at.load(value) * keep - step * at.load(direction));
    }
  });
}

template struct MuonKernels<cpu::MOH_ISA, float>;
template struct MuonKernels<cpu::MOH_ISA, bfloat16>;
template struct MuonKernels<cpu::MOH_ISA, bfloat16, bfloat16>;
template struct MuonKernels<cpu::MOH_ISA, double>;

}  // namespace moh
