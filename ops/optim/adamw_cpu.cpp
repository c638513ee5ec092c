#include <type_traits>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

/// -1, 0 or 1.
template <class A>
[[gnu::always_inline]] inline Vec<A> sign_of(Vec<A> x) {
  const Vec<A> zero{}, one = zero + A(1);
  return (x > zero ? one : zero) - (x < zero ? one : zero);
}

/// The elements `at` of a parameter, of which `move` is subtracted after the weight decay.
template <class T, class G, class At, class A = Acc<T>>
[[gnu::always_inline]] inline void subtract(const AdamWChunk<T, G>& of, const At& at,
                                            const AdamWRate<A>& rate, Vec<A> move) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const Vec<A> p = at.load(of.master) * rate.keep - move;
    at.store(of.master, p);
    at.store(of.value, p);
  } else {
    at.store(of.value, at.load(of.value) * rate.keep - move);
  }
}

template <class T, class G, class A = Acc<T>>
[[gnu::always_inline]] inline void update_by_adamw(const AdamWChunk<T, G>& of, const AdamWCoefficients<A>& c,
                                                   const AdamWRate<A>& rate) {
  for_vectors_in<A>(0, of.count, [=](auto at) {
    const Vec<A> g = c.grad_scale * at.load(of.grad);
    const Vec<A> m = c.beta1 * at.load(of.exp_avg) + c.one_minus_beta1 * g;
    const Vec<A> v = c.beta2 * at.load(of.exp_avg_sq) + c.one_minus_beta2 * (g * g);
    at.store(of.exp_avg, m);
    at.store(of.exp_avg_sq, v);
    subtract(of, at, rate, Vec<A>(rate.step_size * (m / (sqrt_lanes<A>(v) * c.root_scale + c.epsilon))));
  });
}

template <class T, class G, class A = Acc<T>>
[[gnu::always_inline]] inline void update_by_lion(const AdamWChunk<T, G>& of, const AdamWCoefficients<A>& c,
                                                  const AdamWRate<A>& rate) {
  for_vectors_in<A>(0, of.count, [=](auto at) {
    const Vec<A> g = c.grad_scale * at.load(of.grad), m = at.load(of.exp_avg);
    at.store(of.exp_avg, c.beta2 * m + c.one_minus_beta2 * g);
    subtract(of, at, rate, Vec<A>(rate.step_size * sign_of<A>(c.beta1 * m + c.one_minus_beta1 * g)));
  });
}

}  // namespace

template <class Backend, class T, class G>
void AdamWKernels<Backend, T, G>::update(const AdamWChunk<T, G>* chunks, std::int64_t count,
                                         const AdamWCoefficients<Acc<T>>* coefficients,
                                         const AdamWRate<Acc<T>>* rates, const std::int32_t* go,
                                         const G* grad) {
  using A = Acc<T>;
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<A> c = *coefficients;
  parallel_for(count, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      AdamWChunk<T, G> of = chunks[chunk];
      if (grad != nullptr) of.grad = grad + chunk * kOptimizerChunk;
      if (of.exp_avg_sq != nullptr)
        update_by_adamw(of, c, rates[of.rate]);
      else if (of.exp_avg != nullptr)
        update_by_lion(of, c, rates[of.rate]);
    }
  });
}

template struct AdamWKernels<cpu::MOH_ISA, float>;
template struct AdamWKernels<cpu::MOH_ISA, bfloat16>;
template struct AdamWKernels<cpu::MOH_ISA, bfloat16, bfloat16>;
template struct AdamWKernels<cpu::MOH_ISA, double>;

}  // namespace moh
