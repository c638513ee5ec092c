#include "ops/cpu/fma_loop.h"

#include <catch2/catch.hpp>

#include "core/parallel.h"
#include "core/visit_cpu_isa.h"
#include "ops/cpu/fma_loop_kernels.h"
#include "tests/support/every_isa.h"

using namespace moh;

namespace {

/// Calls fn() under every instruction set that this processor has.
template <class Fn>
void for_every_isa(Fn&& fn) {
  for (const CpuIsa isa : test::every_isa()) {
    const CpuIsaScope scope(isa);
    CAPTURE(cpu_isa_name(isa));
    fn();
  }
}

}  // namespace

TEST_CASE("fma loop: every lane computes what it is timed for", "[every_isa]") {
  for_every_isa([] {
    visit_cpu_isa([]<class Backend>() {
      using Kernels = FmaLoopKernels<Backend, float>;
      const auto lanes = static_cast<float>(Kernels::flops_per_round()) / 2;
      CHECK(Kernels::run(1, 0.0F, 3.0F) == 3.0F * lanes);
      CHECK(Kernels::run(3, 2.0F, 1.0F) - Kernels::run(2, 2.0F, 1.0F) ==
            Kernels::run(2, 2.0F, 1.0F) + lanes);            // s_3 = 2 s_2 + 1
      CHECK(Kernels::run(200, 0.5F, 1.0F) == 2.0F * lanes);  // the fixed point of s / 2 + 1
    });
  });
}

TEST_CASE("fma loop: of bfloat16 each round adds as many products as are counted", "[every_isa]") {
  for_every_isa([] {
    visit_gemm_isa([]<class Backend>() {
      using Kernels = FmaLoopKernels<Backend, bfloat16>;
      CHECK(Kernels::run(5, 1.0F, 1.0F) - Kernels::run(4, 1.0F, 1.0F) ==
            static_cast<float>(Kernels::flops_per_round()) / 2);
      CHECK(run_fma_loop(10, DType::kBFloat16) ==
            static_cast<double>(10 * num_threads() * Kernels::flops_per_round()));
    });
  });
}

TEST_CASE("fma loop: operations are counted for all threads", "[every_isa]") {
  for_every_isa([] {
    const int threads = num_threads();
    set_num_threads(1);
    const double alone = run_fma_loop(10);
    set_num_threads(3);
    CHECK(run_fma_loop(10) == 3 * alone);
    CHECK(run_fma_loop(20) == 6 * alone);
    set_num_threads(threads);
    visit_cpu_isa([&]<class Backend>() {
      CHECK(alone == static_cast<double>(10 * FmaLoopKernels<Backend, float>::flops_per_round()));
    });
  });
}
