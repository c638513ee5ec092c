#include "train/trainer/run/gradient_buckets.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/recompute.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/support/thread_processes.h"

using namespace moh;

namespace {

constexpr std::int64_t kElements = 1000;

Variable parameter() {
  return Variable(full({kElements}, 1.0, DType::kFloat32), /*requires_grad=*/true);
}

Variable sum_of(const Variable& a, const Variable& b) {
  return add(a, b);
}

void differentiate(const Variable& y) {
  y.backward(full(y.shape(), 1.0, DType::kFloat32));
}

void expect(const Variable& leaf, float gradient) {
  for (const float element : leaf.grad().span<float>()) {
    if (element != gradient) throw ValueError(std::to_string(element));
  }
}

}  // namespace

TEST_CASE("gradient buckets: sums over passes and processes, in buckets of any size") {
  const std::size_t bytes = GENERATE(1, 5000, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    Variable a = parameter(), b = parameter(), c = parameter(), unreached = parameter(), frozen = parameter();
    frozen.set_requires_grad(false);
    GradientBuckets buckets(comm, {a, b, frozen, c, unreached}, {bytes, DType::kFloat32});
    if (buckets.count() != (bytes == 1 ? 4U : bytes == 5000 ? 2U : 1U)) throw ValueError("buckets");
    const auto own = static_cast<double>(comm.rank() + 1);
    for (int step = 0; step < 3; ++step) {
      for (Variable* leaf : {&a, &b, &c, &unreached}) leaf->zero_grad();
      buckets.begin_step();
      differentiate(sum_of(scale(a, own), scale(b, 2)));  // the first of two micro-batches
      buckets.expect_last_pass();
      differentiate(sum_of(sum_of(scale(a, own), scale(c, own)), scale(a, 10)));
      buckets.finish();
      expect(a, 2 * (1 + 2 + 3) + 3 * 10);
      expect(b, 3 * 2);
      expect(c, 1 + 2 + 3);
      expect(unreached, 0);
      if (frozen.grad().defined()) throw ValueError("frozen");
    }
  });
}

TEST_CASE("gradient buckets: with shards a process has the sums of its own elements") {
  const DType wire = GENERATE(DType::kFloat32, DType::kBFloat16);
  test::require_success(3, [&](Communicator& comm) {
    Variable a = parameter(), b = parameter();
    GradientBuckets buckets(comm, {a, b}, {1 << 20, wire, /*sharded=*/true});
    const ParameterShards shards({{kElements}, {kElements}}, 1 << 20, comm);
    for (int step = 0; step < 2; ++step) {
      a.zero_grad();
      b.zero_grad();
      buckets.begin_step();
      buckets.expect_last_pass();
      differentiate(sum_of(scale(a, comm.rank() + 1), scale(b, 2)));
      buckets.finish();
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
    Variable tied = parameter(), other = parameter();
    GradientBuckets buckets(comm, {tied, other}, {1, DType::kFloat32});
    const auto segment = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
      return {sum_of(sum_of(in[0], tied), scale(other, 2))};
    };
    buckets.begin_step();
    buckets.expect_last_pass();
    Variable x = scale(tied, 3);
    for (int i = 0; i < 3; ++i) x = recompute(segment, {x}, nullptr)[0];
    differentiate(sum_of(x, scale(tied, 5)));
    buckets.finish();
    expect(tied, 2 * (3 + 3 + 5));
    expect(other, 2 * 3 * 2);
  });
}

TEST_CASE("gradient buckets: gradients that are kept in bfloat16 are sent so, and summed in float32") {
  const bool sharded = GENERATE(false, true);
  test::require_success(3, [&](Communicator& comm) {
    Variable w(full({64}, 1.0, DType::kBFloat16), /*requires_grad=*/true);
    w.set_grad_dtype(DType::kBFloat16);
    GradientBuckets buckets(comm, {w}, {1, DType::kFloat32, sharded});
    buckets.begin_step();
    buckets.expect_last_pass();
    // 256 + 1 + 1: bfloat16 has even numbers there, and a sum of bfloat16 would stay 256.
    scale(w, comm.rank() == 0 ? 256 : 1).backward(full({64}, 1.0, DType::kBFloat16));
    buckets.finish();
    const std::int64_t first = sharded ? 32 * comm.rank() : 0;  // of 96 elements, the last 32 without a leaf
    if (w.grad().dtype() != DType::kBFloat16) throw ValueError("dtype");
    if (first == 64) return;
    const auto found = static_cast<float>(w.grad().span<bfloat16>()[static_cast<std::size_t>(first)]);
    if (found != 258.0F) throw ValueError(std::to_string(found));
  });
}
