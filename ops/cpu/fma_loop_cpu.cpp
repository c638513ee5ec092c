#include "core/cpu_isa.h"
#include "ops/cpu/fma_loop_kernels.h"
#include "ops/cpu/simd.h"

namespace moh {

namespace {

// Two FMA units with a latency of 4 or 5 cycles need 10 independent sums; too many would spill registers.
constexpr int kSums = kVectorRegisters >= 32 ? 20 : 12;

}  // namespace

template <class Backend, class T>
float FmaLoopKernels<Backend, T>::run(std::int64_t rounds, float factor, float term) {
  Vec<float> sums[kSums];
#pragma GCC unroll 20
  for (int i = 0; i < kSums; ++i) sums[i] = splat(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) {
      if constexpr (kTerms<Factor<T>> == 2) {
        sums[i] =
            multiply_add<Bf16Pair>(splat<Bf16Pair>({factor, factor}), splat<Bf16Pair>({term, term}), sums[i]);
      } else {
        sums[i] = multiply_add<float>(sums[i], splat(factor), splat(term));
      }
    }
  }
  Vec<float> total = sums[0];
#pragma GCC unroll 20
  for (int i = 1; i < kSums; ++i) total = total + sums[i];
  return sum_lanes<float>(total);
}

template <class Backend, class T>
std::int64_t FmaLoopKernels<Backend, T>::flops_per_round() {
  return std::int64_t{2} * kTerms<Factor<T>> * kSums * kLanes<float>;
}

#ifndef __AVX512BF16__
template struct FmaLoopKernels<cpu::MOH_ISA, float>;
#endif
template struct FmaLoopKernels<cpu::MOH_ISA, bfloat16>;

}  // namespace moh
