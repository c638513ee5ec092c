#include "core/cpu_isa.h"
#include "ops/cpu/fma_loop_kernels.h"
#include "ops/cpu/simd.h"

namespace moh {

namespace {

// Two FMA units with a latency of 4 or 5 cycles need 10 independent sums; too many would spill registers.
constexpr int kSums = kVectorRegisters >= 32 ? 20 : 12;

}  // namespace

template <class Backend>
float FmaLoopKernels<Backend>::run(std::int64_t rounds, float factor, float term) {
  const Vec<float> a = splat(factor), b = splat(term);
  Vec<float> sums[kSums];
#pragma GCC unroll 20
  for (int i = 0; i < kSums; ++i) sums[i] = splat(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * a + b;
  }
  Vec<float> total = sums[0];
#pragma GCC unroll 20
  for (int i = 1; i < kSums; ++i) total = total + sums[i];
  return sum_lanes<float>(total);
}

template <class Backend>
std::int64_t FmaLoopKernels<Backend>::flops_per_round() {
  return std::int64_t{2} * kSums * kLanes<float>;
}

template struct FmaLoopKernels<cpu::MOH_ISA>;

}  // namespace moh
