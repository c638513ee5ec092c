#include "train/trainer/run/gradient_buckets.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/recompute.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/gradient_passes.h"

using namespace moh;
using test::kGradientElements;
using test::parameter_of_ones;
using test::require_all;
using test::run_pass;

TEST_CASE("gradient buckets: sums over passes and processes, in buckets of any size") {
  const std::size_t bytes = GENERATE(1, 5000, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    Variable a = parameter_of_ones(), b = parameter_of_ones(), c = parameter_of_ones(),
             unreached = parameter_of_ones(), frozen = parameter_of_ones();
    frozen.set_requires_grad(false);
    GradientBuckets buckets(comm, {a, b, frozen, c, unreached}, {bytes, DType::kFloat32});
    if (buckets.count() != (bytes == 1 ? 4U : bytes == 5000 ? 2U : 1U)) throw ValueError("buckets");
    const auto own = static_cast<double>(comm.rank() + 1);
    for (int step = 0; step < 3; ++step) {
      for (Variable* leaf : {&a, &b, &c, &unreached}) leaf->zero_grad();
      buckets.begin_step();
      run_pass(buckets, false, add(scale(a, own), scale(b, 2)));  // the first of two micro-batches
      run_pass(buckets, true, add(add(scale(a, own), scale(c, own)), scale(a, 10)));
      require_all(a.grad(), 2 * (1 + 2 + 3) + 3 * 10);
      require_all(b.grad(), 3 * 2);
      require_all(c.grad(), 1 + 2 + 3);
      require_all(unreached.grad(), 0);
      if (frozen.grad().defined()) throw ValueError("frozen");
    }
  });
}

TEST_CASE("gradient buckets: with shards a process has the sums of its own elements") {
  const DType wire = GENERATE(DType::kFloat32, DType::kBFloat16);
  test::require_success(3, [&](Communicator& comm) {
    Variable a = parameter_of_ones(), b = parameter_of_ones();
    const ParameterShards shards({{kGradientElements}, {kGradientElements}}, 1 << 20, comm);
    GradientBuckets buckets(comm, {a, b}, {1 << 20, wire, &shards});
    for (int step = 0; step < 2; ++step) {
      a.zero_grad();
      b.zero_grad();
      buckets.begin_step();
      run_pass(buckets, true, add(scale(a, comm.rank() + 1), scale(b, 2)));
      const auto all_are = [](const Tensor& elements, float value) {
        return std::ranges::all_of(elements.span<float>(), [&](float element) { return element == value; });
      };
      if (!all_are(shards.own_part(0, a.grad()), 1 + 2 + 3) || !all_are(shards.own_part(1, b.grad()), 2 * 3))
        throw ValueError("sums");
    }
  });
}

TEST_CASE("gradient buckets: a parameter that segments share is reduced after the last of them") {
  test::require_success(2, [&](Communicator& comm) {
    Variable tied = parameter_of_ones(), other = parameter_of_ones();
    GradientBuckets buckets(comm, {tied, other}, {1, DType::kFloat32});
    const auto segment = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
      return {add(add(in[0], tied), scale(other, 2))};
    };
    buckets.begin_step();
    Variable x = scale(tied, 3);
    for (int i = 0; i < 3; ++i) x = recompute(segment, {x}, nullptr)[0];
    run_pass(buckets, true, add(x, scale(tied, 5)));
    require_all(tied.grad(), 2 * (3 + 3 + 5));
    require_all(other.grad(), 2 * 3 * 2);
  });
}

TEST_CASE("gradient buckets: gradients that are kept in bfloat16 are sent so, and summed in float32") {
  const bool sharded = GENERATE(false, true);
  test::require_success(3, [&](Communicator& comm) {
    Variable w(full({64}, 1.0, DType::kBFloat16), /*requires_grad=*/true);
    w.set_grad_dtype(DType::kBFloat16);
    const ParameterShards shards({{64, DType::kBFloat16}}, 1, comm);
    GradientBuckets buckets(comm, {w}, {1, DType::kFloat32, sharded ? &shards : nullptr});
    buckets.begin_step();
    buckets.expect_pass(true);
    // 256 + 1 + 1: bfloat16 has even numbers there, and a sum of bfloat16 would stay 256.
    scale(w, comm.rank() == 0 ? 256 : 1).backward(full({64}, 1.0, DType::kBFloat16));
    buckets.finish_pass(true);
    const std::int64_t first = sharded ? 32 * comm.rank() : 0;  // of 96 elements, the last 32 without a leaf
    if (w.grad().dtype() != DType::kBFloat16) throw ValueError("dtype");
    if (first == 64) return;
    const auto found = static_cast<float>(w.grad().span<bfloat16>()[static_cast<std::size_t>(first)]);
    if (found != 258.0F) throw ValueError(std::to_string(found));
  });
}
