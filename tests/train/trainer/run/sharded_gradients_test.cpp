#include "train/trainer/run/sharded_gradients.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "autograd/recompute.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/gradient_passes.h"
#include "train/trainer/run/gradient_buckets.h"

using namespace moh;
using test::parameter_of_ones;
using test::require_all;
using test::run_pass;

namespace {

std::shared_ptr<const ParameterShards> shards_of(const std::vector<Variable>& leaves, std::size_t bytes,
                                                 Communicator& processes) {
  std::vector<BucketItem> items;
  for (const Variable& leaf : leaves) items.push_back({leaf.numel(), leaf.dtype()});
  return std::make_shared<const ParameterShards>(items, bytes, processes);
}

}  // namespace

TEST_CASE("sharded gradients: sums over passes and processes, in buckets of any size") {
  const std::size_t bytes = GENERATE(1, 5000, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    Variable a = parameter_of_ones(), b = parameter_of_ones(), c = parameter_of_ones(),
             unreached = parameter_of_ones();
    const std::vector<Variable> leaves = {a, b, c, unreached};
    ShardedGradients gradients(shards_of(leaves, bytes, comm), leaves, DType::kFloat32);
    const std::vector<Tensor> sums = gradients.sums();
    const auto own = static_cast<double>(comm.rank() + 1);
    for (int step = 0; step < 3; ++step) {
      gradients.begin_step();
      run_pass(gradients, false, add(scale(a, own), scale(b, 2)));  // the first of two micro-batches
      run_pass(gradients, true, add(add(scale(a, own), scale(c, own)), scale(a, 10)));
      require_all(sums[0], 2 * (1 + 2 + 3) + 3 * 10);
      require_all(sums[1], 3 * 2);
      require_all(sums[2], 1 + 2 + 3);
      require_all(sums[3], 0);
      for (const Variable& leaf : leaves) {
        if (leaf.grad().defined()) throw ValueError("a whole gradient is kept");
      }
    }
    gradients.begin_step();  // one that was stopped after its first pass
    run_pass(gradients, false, scale(a, own));
    gradients.begin_step();
    run_pass(gradients, true, scale(a, own));
    require_all(sums[0], 1 + 2 + 3);
  });
}

TEST_CASE("sharded gradients: those of one pass have the bits of whole gradients, whatever is sent") {
  const DType wire = GENERATE(DType::kFloat32, DType::kBFloat16);
  const DType kept = GENERATE(DType::kFloat32, DType::kBFloat16);
  test::require_success(3, [&](Communicator& comm) {
    std::vector<Variable> leaves = {parameter_of_ones(DType::kBFloat16), parameter_of_ones(DType::kBFloat16)};
    std::vector<Variable> again = {parameter_of_ones(DType::kBFloat16), parameter_of_ones(DType::kBFloat16)};
    for (Variable& leaf : leaves) leaf.set_grad_dtype(kept);
    for (Variable& leaf : again) leaf.set_grad_dtype(kept);
    const auto loss = [&](const std::vector<Variable>& of) {
      return add(scale(of[0], 1.0 / 3 + comm.rank()), scale(of[1], 1.0 / 7));
    };
    const auto shards = shards_of(leaves, 1, comm);
    ShardedGradients gradients(shards, leaves, wire);
    GradientBuckets whole(comm, again, {1, wire, shards.get()});
    gradients.begin_step();
    run_pass(gradients, true, loss(leaves));
    whole.begin_step();
    run_pass(whole, true, loss(again));
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Tensor sum = gradients.sums()[i], other = shards->own_part(i, again[i].grad());
      if (sum.dtype() != kept || sum.numel() != other.numel()) throw ValueError("shape");
      if (!std::ranges::equal(sum.to(DType::kFloat32).span<float>(), other.to(DType::kFloat32).span<float>()))
        throw ValueError("bits");
    }
  });
}

TEST_CASE("sharded gradients: sums that are handed on, bucket by bucket, divided or not") {
  const bool divided = GENERATE(false, true);
  test::require_success(2, [&](Communicator& comm) {
    std::vector<Variable> leaves;
    for (int i = 0; i < 20; ++i) leaves.push_back(parameter_of_ones());
    const auto shards = shards_of(leaves, 1, divided ? comm : one_process());
    std::vector<std::size_t> handed_on;
    ShardedGradients gradients(comm, shards, leaves, DType::kFloat32,
                               [&](std::size_t bucket, std::span<const Tensor> own) {
                                 const std::size_t i = shards->buckets()[bucket].items.front();
                                 handed_on.push_back(i);
                                 if (own.size() != 1 || own[0].numel() != shards->own(i).count())
                                   throw ValueError("this process's elements");
                                 require_all(own[0], i == 7 ? 0 : static_cast<float>(3 * (i + 1)));
                               });
    for (int step = 0; step < 2; ++step) {
      handed_on.clear();
      gradients.begin_step();
      Variable y = scale(leaves[0], comm.rank() + 1);
      for (std::size_t i = 1; i < leaves.size(); ++i) {
        const auto factor = static_cast<double>(i + 1) * (comm.rank() + 1);
        if (i != 7) y = add(y, scale(leaves[i], factor));  // which the pass does not reach
      }
      run_pass(gradients, true, y);
      if (handed_on.size() != 20 || handed_on.front() != 19 || handed_on.back() != 0)
        throw ValueError("each once, in the order of the buckets");
    }
    // Buckets behind the one that is not reached wait for the end of the pass.
    if (gradients.block_bytes() > 11 * 1024 * sizeof(float)) throw ValueError("blocks");
  });
}

TEST_CASE("sharded gradients: whole ones take the memory of a few buckets, however many there are") {
  test::require_success(2, [&](Communicator& comm) {
    std::vector<Variable> leaves;
    for (int i = 0; i < 40; ++i) leaves.push_back(parameter_of_ones());
    ShardedGradients gradients(shards_of(leaves, 1, comm), leaves, DType::kFloat32);
    for (int step = 0; step < 3; ++step) {
      gradients.begin_step();
      Variable y = scale(leaves[0], 1);
      for (const Variable& leaf : leaves) y = add(y, scale(leaf, 2));
      run_pass(gradients, true, y);
      require_all(gradients.sums()[0], 2 * 3);
      require_all(gradients.sums()[39], 2 * 2);
    }
    const std::size_t bucket = gradients.sums()[39].bytes() * 2;
    if (gradients.block_bytes() > 4 * (bucket + 1024))
      throw ValueError(std::to_string(gradients.block_bytes()));
  });
}

TEST_CASE("sharded gradients: a parameter that segments share is reduced after the last of them") {
  test::require_success(2, [&](Communicator& comm) {
    Variable tied = parameter_of_ones(), other = parameter_of_ones();
    const std::vector<Variable> leaves = {tied, other};
    ShardedGradients gradients(shards_of(leaves, 1, comm), leaves, DType::kFloat32);
    const auto segment = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
      return {add(add(in[0], tied), scale(other, 2))};
    };
    for (int step = 0; step < 2; ++step) {
      gradients.begin_step();
      Variable x = scale(tied, 3);
      for (int i = 0; i < 3; ++i) x = recompute(segment, {x}, nullptr)[0];
      run_pass(gradients, true, add(x, scale(tied, 5)));
      require_all(gradients.sums()[0], 2 * (3 + 3 + 5));
      require_all(gradients.sums()[1], 2 * 3 * 2);
    }
  });
}
