#include "train/trainer/run/sharded_parameters.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>

#include "autograd/between_ops.h"
#include "core/allocator.h"
#include "core/late_tensor.h"
#include "models/late_parameters.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/linear.h"
#include "tests/support/image_runs.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/gradient_passes.h"
#include "train/families/families.h"
#include "train/trainer/run/replicas.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/load_weights.h"

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
      leaves.emplace_back(late_tensor({kWidth, kWidth}, DType::kFloat32), /*requires_grad=*/true);
      items.push_back({leaves.back().numel(), DType::kFloat32});
    }
    shards = std::make_shared<const ParameterShards>(items, bucket_bytes, processes);
  }
  /// The leaves are 1, 2, 3, ...
  void fill(ShardedParameters& values) const {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i].value().fill(static_cast<double>(i + 1));
      BetweenOps::reached();
      if (values.gathered() > ShardedParameters::kKept + kBucketsAhead) throw ValueError("all are in memory");
    }
    values.end_filling();
  }

  static constexpr std::size_t kBucketsAhead = 1;
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
    parameters.fill(values);
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
        for (std::size_t i = 0; i < parameters.leaves.size(); ++i) {
          require_all(parameters.leaves[i].value(), static_cast<float>(i + 3));
          BetweenOps::reached();
          require_at_most(values.gathered(), ShardedParameters::kKept + 1);
        }
        values.after_reading();
        if (values.gathered() > 0) throw ValueError("values are there after reading");
      }
    }
  });
}

TEST_CASE("sharded parameters: what a pass has updated it may keep, but not gather again") {
  const std::vector<std::string> errors = test::run_processes(2, [&](Communicator& comm) {
    const Parameters parameters(comm);
    ShardedParameters values(parameters.shards, parameters.leaves);
    parameters.fill(values);
    for (int step = 0; step < 2; ++step) {
      values.before_pass();
      values.run_pass(true, [&] {
        static_cast<void>(sum_of(parameters.leaves));
        values.expect_update(0);  // of the last leaf, which is still there
        require_all(scale(parameters.leaves.back(), 1).value(), static_cast<float>(kLeaves));
        values.expect_update(kLeaves - 1);
        if (step == 1) static_cast<void>(scale(parameters.leaves.front(), 1));
      });
    }
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("a pass reads no parameter after its update"));
}

TEST_CASE(
    "sharded parameters: backward passes gather once more what they read, in the same order in each step") {
  test::require_success(2, [&](Communicator& comm) {
    const Parameters parameters(comm);
    ShardedParameters values(parameters.shards, parameters.leaves);
    parameters.fill(values);
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
      items.push_back({leaves.back().numel(), DType::kFloat32, /*follows=*/i > 0});
    }
    const auto shards = std::make_shared<const ParameterShards>(items, 1, comm);
    ShardedParameters values(shards, leaves);
    for (int i = 0; i < 3; ++i) leaves[static_cast<std::size_t>(i)].value().fill(i + 1);
    values.end_filling();
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
    const Variable own(empty({kWidth, kWidth}, DType::kFloat32), /*requires_grad=*/true);
    const Variable packed_half(packed.slice(0, kWidth), /*requires_grad=*/true);
    const Tensor frozen = packed.slice(kWidth, 2 * kWidth);
    const std::vector<Variable> leaves = {packed_half, own};
    const std::vector<BucketItem> items(2, {kWidth * kWidth, DType::kFloat32});
    ShardedParameters values(std::make_shared<const ParameterShards>(items, 1, comm), leaves, {frozen});
    own.value().fill(2.0);
    values.end_filling();
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

TEST_CASE("sharded parameters: while they are made, what was written is kept, and is read again by all") {
  const std::size_t bucket_bytes = GENERATE(1, 9000, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    const Parameters parameters(comm, bucket_bytes);
    ShardedParameters values(parameters.shards, parameters.leaves);
    for (int round = 1; round <= 2; ++round) {
      for (std::size_t i = 0; i < parameters.leaves.size(); ++i) {
        const Tensor& value = parameters.leaves[i].value();
        if (round > 1) require_all(value, static_cast<float>(i));
        value.slice(0, 1).fill(static_cast<double>(i));
        if (round == 1) value.slice(1, kWidth).fill(static_cast<double>(i));
        BetweenOps::reached();
      }
    }
    values.end_filling();
    for (std::size_t i = 0; i < parameters.leaves.size(); ++i)
      require_all(parameters.leaves[i].value(), static_cast<float>(i));
  });
}

/// A model whose parameters are divided from the beginning, with random values.
struct DividedModel {
  explicit DividedModel(Communicator& processes) : config(small_image_run(ImageArchitecture::kVit)) {
    config.comm.zero = 3;
    config.comm.bucket_mib = 1;
    images_of(config).model.vit = {.patch_size = 4, .layers = 6, .hidden = 256, .heads = 4, .mlp_ratio = 4};
    {
      const LateParameters late;
      model = families().of(config).make_model(*config.family, {DType::kFloat32});
    }
    sharded = shard_parameters(*model, config, processes);
    model->initialise(1);
    sharded->end_filling();
  }

  RunConfig config;
  std::shared_ptr<ShardedParameters> sharded;
  std::unique_ptr<Model> model;
};

TEST_CASE("sharded parameters: no process has a whole model, from its making to its file") {
  CpuAllocator& allocator = CpuAllocator::instance();
  allocator.reset_peaks();
  const auto parameters = [&] { return allocator.stats().of(MemoryPurpose::kParameter); };
  const std::int64_t before = parameters().current_bytes;
  std::atomic<std::int64_t> whole = 0;
  test::require_success(2, [&](Communicator& comm) {
    const DividedModel divided(comm);
    CheckpointContents contents;
    contents.model = tensors_of(divided.model->parameters());
    contents.after_read = BetweenOps::reached;
    read_model_files(contents);
    for (const NamedTensor& each : contents.model) whole += static_cast<std::int64_t>(each.tensor.bytes());
  });
  // Each half, and the buckets that are being read.
  CHECK(static_cast<double>(parameters().peak_bytes - before) < 0.75 * static_cast<double>(whole));
}

TEST_CASE("sharded parameters: values are those of a model that is whole") {
  test::require_success(2, [&](Communicator& comm) {
    const DividedModel divided(comm);
    const std::unique_ptr<Model> whole =
        families().of(divided.config).make_model(*divided.config.family, {DType::kFloat32});
    whole->initialise(1);
    const std::vector<NamedParameter> expected = whole->parameters(), found = divided.model->parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!test::same_bits(found[i].variable.value(), expected[i].variable.value()))
        throw ValueError(expected[i].name);
      BetweenOps::reached();
    }
  });
}

TEST_CASE("sharded parameters: an average takes their place, and goes again") {
  test::require_success(2, [&](Communicator& comm) {
    const DividedModel divided(comm);
    const auto& [config, sharded, model] = divided;
    const AdamW optimizer = make_optimizer(*model, config, comm, sharded.get());
    const WeightAverage average(optimizer, 0.5);
    const auto require = [&, &model = model, &sharded = sharded](float expected) {
      for (const NamedParameter& p : model->parameters()) {
        require_all(p.variable.value(), expected);
        BetweenOps::reached();
      }
      sharded->after_reading();
    };
    for (const Tensor& own : sharded->own()) own.fill(2);
    for (const NamedTensor& of : average.trained()) of.tensor.fill(3);
    require(2);
    {
      const std::unique_ptr<WeightsScope> scope = sharded->take_average(*model, average);
      require(3);
    }
    sharded->after_reading();
    require(2);
  });
}
