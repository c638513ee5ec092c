#include "train/trainer/run/sharded_parameters.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/linear.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/gradient_passes.h"

using namespace moh;
using test::require_all;

namespace {

constexpr std::int64_t kLeaves = 12, kWidth = 32;

struct Parameters {
  std::vector<Variable> leaves;
  std::shared_ptr<const ParameterShards> shards;

  explicit Parameters(Communicator& processes, std::size_t bucket_bytes = 1) {
    std::vector<BucketItem> items;
    for (int i = 0; i < kLeaves; ++i) {
      leaves.emplace_back(full({kWidth, kWidth}, i + 1, DType::kFloat32), /*requires_grad=*/true);
      items.push_back({leaves.back().numel(), DType::kFloat32});
    }
    shards = std::make_shared<const ParameterShards>(items, bucket_bytes, processes);
  }
};

/// The sum of all leaves, one after the other.
Variable sum_of(const std::vector<Variable>& leaves) {
  Variable sum = scale(leaves.front(), 1);
  for (std::size_t i = 1; i < leaves.size(); ++i) sum = add(sum, scale(leaves[i], 1));
  return sum;
}

void require_at_most(std::size_t found, std::size_t most) {
  if (found > most) throw ValueError(std::to_string(found) + " for at most " + std::to_string(most));
}

}  // namespace

TEST_CASE("sharded parameters: a pass reads the values that all processes keep, a few buckets at a time") {
  const std::size_t bucket_bytes = GENERATE(1, 9000, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    const Parameters parameters(comm, bucket_bytes);
    ShardedParameters values(parameters.shards, parameters.leaves);
    float first = 0;
    for (int i = 0; i < kLeaves; ++i) first += static_cast<float>(i + 1);
    for (int step = 0; step < 4; ++step) {
      values.before_pass();
      if (values.gathered() > 0) throw ValueError("values are there before a pass");
      values.run_pass(step == 0, [&] {
        require_all(sum_of(parameters.leaves).value(), first + static_cast<float>(kLeaves * step));
        require_at_most(values.gathered(), ShardedParameters::kKept + 1);
      });
      if (values.gathered() > 0) throw ValueError("values are there after a pass");
      for (const Tensor& own : values.own()) own.add(full(own.shape(), 1.0, DType::kFloat32));  // the update
      if (step == 1) {
        values.complete();
        for (std::size_t i = 0; i < parameters.leaves.size(); ++i)
          require_all(parameters.leaves[i].value(), static_cast<float>(i + 3));
      }
    }
  });
}

TEST_CASE(
    "sharded parameters: backward passes gather once more what they read, in the same order in each step") {
  test::require_success(2, [&](Communicator& comm) {
    const Parameters parameters(comm);
    ShardedParameters values(parameters.shards, parameters.leaves);
    for (int step = 0; step < 3; ++step) {
      for (Variable leaf : parameters.leaves) leaf.zero_grad();
      values.before_pass();
      values.run_pass(true, [&] {
        Variable y(full({1, kWidth}, comm.rank() + 1, DType::kFloat32), /*requires_grad=*/true);
        const Variable x = y;
        for (const Variable& leaf : parameters.leaves) y = scale(linear(y, leaf), 1.0 / kWidth);
        y.backward(full(y.shape(), 1.0, DType::kFloat32));
        require_at_most(values.gathered(), ShardedParameters::kKept + 1);
        double product = 1;  // of all leaves, whose elements are 1 to 12
        for (int i = 0; i < kLeaves; ++i) product *= i + 1;
        require_all(x.grad(), static_cast<float>(product));
      });
    }
  });
}

TEST_CASE("sharded parameters: rows that share memory are released and gathered with it") {
  test::require_success(2, [&](Communicator& comm) {
    const Tensor packed = full({3 * kWidth, kWidth}, 1.0, DType::kFloat32);
    std::vector<Variable> leaves;
    std::vector<BucketItem> items;
    for (int i = 0; i < 3; ++i) {
      leaves.emplace_back(packed.slice(i * kWidth, (i + 1) * kWidth), /*requires_grad=*/true);
      leaves.back().value().fill(i + 1);
      items.push_back({leaves.back().numel(), DType::kFloat32, /*follows=*/i > 0});
    }
    const auto shards = std::make_shared<const ParameterShards>(items, 1, comm);
    ShardedParameters values(shards, leaves);
    values.before_pass();
    values.run_pass(true, [&] {
      const Variable x(full({1, kWidth}, 1.0, DType::kFloat32));
      const Tensor y = packed_linear(x, leaves).value();
      for (int i = 0; i < 3; ++i)
        require_all(y.reshape({3, kWidth}).select(i).clone(), static_cast<float>((i + 1) * kWidth));
    });
  });
}

TEST_CASE("sharded parameters: what shares memory with others stays whole, and current") {
  test::require_success(2, [&](Communicator& comm) {
    const Tensor packed = full({2 * kWidth, kWidth}, 1.0, DType::kFloat32);
    const Variable own(full({kWidth, kWidth}, 2.0, DType::kFloat32), /*requires_grad=*/true);
    const Variable packed_half(packed.slice(0, kWidth), /*requires_grad=*/true);
    const Tensor frozen = packed.slice(kWidth, 2 * kWidth);
    const std::vector<Variable> leaves = {packed_half, own};
    const std::vector<BucketItem> items(2, {kWidth * kWidth, DType::kFloat32});
    ShardedParameters values(std::make_shared<const ParameterShards>(items, 1, comm), leaves, {&frozen, 1});
    for (int step = 0; step < 2; ++step) {
      values.before_pass();
      if (values.gathered() > 0) throw ValueError("values are there before a pass");
      values.run_pass(true, [&] { require_all(sum_of(leaves).value(), static_cast<float>(3 + 2 * step)); });
      require_all(frozen, 1);
      for (const Tensor& part : values.own()) part.add(full(part.shape(), 1.0, DType::kFloat32));
    }
    values.complete();
    require_all(packed_half.value(), 3);
    require_all(own.value(), 4);
  });
}
