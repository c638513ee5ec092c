#include "ops/cpu/fma_loop.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/visit_cpu_isa.h"
#include "ops/cpu/fma_loop_kernels.h"

namespace moh {

namespace {

template <class Kernels>
double run_loops(std::int64_t rounds) {
  const std::int64_t threads = num_threads();
  parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // Converges to 1 / (1 - 0.5) = 2, or grows by 1 a round: no subnormal or infinite numbers, which may be
      // slower.
      const float sum = Kernels::run(rounds, 0.5F, 1.0F);
      MOH_CHECK(sum > 0.0F, "the sums of a multiply-add loop are positive");
    }
  });
  return static_cast<double>(threads * rounds * Kernels::flops_per_round());
}

}  // namespace

double run_fma_loop(std::int64_t rounds, DType dtype) {
  if (dtype == DType::kBFloat16) {
    return visit_gemm_isa(
        [&]<class Backend>() { return run_loops<FmaLoopKernels<Backend, bfloat16>>(rounds); });
  }
  return visit_cpu_isa([&]<class Backend>() { return run_loops<FmaLoopKernels<Backend, float>>(rounds); });
}

}  // namespace moh
