#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/fused_steps.h"
#include "train/trainer/run/replicas.h"

using namespace moh;
using namespace moh::test;

namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw ValueError(what);
}

/// In two processes, at each stage of comm.zero.
void require_same(RunConfig config) {
  config.train.accumulate = 2;
  config.comm.bucket_mib = 0;  // a bucket for each parameter
  for (config.comm.zero = 0; config.comm.zero <= 3; ++config.comm.zero) {
    INFO("comm.zero " << config.comm.zero);
    require_success(2, [&](Communicator& processes) {
      const Steps expected = four_steps(config, false, processes),
                  found = four_steps(config, true, processes);
      require(found.numbers == expected.numbers, "losses and norms");
      require(same_bits(found.state, expected.state), "state");
    });
  }
}

/// A model of vectors, all of which decay.
class Vectors final : public Model {
 public:
  Variable read, unread;

  Vectors() : Model(DType::kFloat32) {
    read = add_parameter("read", {kElements}, placement());
    unread = add_parameter("unread", {kElements}, placement());
    for (Variable* each : {&read, &unread}) each->value().fill(1);
  }
  std::string_view family() const override { return "vectors"; }
  void initialise(std::uint64_t) override {}
  double init_std() const override { return 1; }
  bool decays(const NamedParameter&) const override { return true; }

  static constexpr std::int64_t kElements = 100;
};

/// One of several processes that train Vectors.
struct VectorTraining {
  RunConfig config = fusible(default_language_run());
  std::shared_ptr<ShardedParameters> sharded;  // outlives the model
  Vectors model;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Replicas> replicas;

  VectorTraining(std::int64_t zero, bool fused, Communicator& processes) {
    config.train.accumulate = processes.size();
    config.comm.zero = zero;
    config.comm.bucket_mib = 0;
    config.optim.adamw.fused_update = fused;
    sharded = shard_values(model, config, processes);
    optimizer.reset(new AdamW(make_optimizer(model, config, processes, sharded.get())));
    replicas = make_replicas(model, *optimizer, config, processes, sharded);
    optimizer->keep_gradients();
    optimizer->set_learning_rate(0.1);
  }

  /// A step whose backward pass begins with `seed` at model.read, and at model.unread in the first one.
  Tensor step(bool is_first, const Tensor& seed, double loss = 1) {
    const Tensor losses = full({1}, loss, DType::kFloat64);
    FusedUpdate* const fused = replicas->fused_update();
    optimizer->zero_grad();
    replicas->begin_gradients();
    replicas->before_pass();
    replicas->run_pass(true, [&] {
      const Variable y = is_first ? add(model.read, scale(model.unread, 3)) : scale(model.read, 2);
      if (fused != nullptr) fused->begin(losses);
      replicas->expect_backward(true);
      y.backward(seed);
      replicas->finish_backward(true);
    });
    replicas->after_passes();
    Tensor outcome = fused != nullptr ? fused->finish() : optimizer->update(losses);
    if (outcome.span<double>()[1] == 1.0) optimizer->count_update();
    replicas->after_update();
    return outcome;
  }

  std::vector<Tensor> values() {
    replicas->complete_parameters();
    return {model.read.value().clone(), model.unread.value().clone()};
  }
};

Tensor ones() {
  return full({Vectors::kElements}, 1.0, DType::kFloat32);
}

}  // namespace

TEST_CASE("fused update: of two processes, at each stage, with recomputed layers, an average, bfloat16") {
  RunConfig config = routed(routers::kLearned);
  model_of(config).tied_embeddings = true;
  model_of(config).recompute = RecomputeLevel::kLayer;
  config.ema.decay = 0.9;
  config.precision = Precision::kBFloat16;
  require_same(config);
}

TEST_CASE("fused update: of two processes, at each stage, by Muon and by Adafactor") {
  for (const UpdateRule rule : {UpdateRule::kMuon, UpdateRule::kAdafactor}) {
    RunConfig config = routed(routers::kLearned);
    config.optim.adamw.rule = rule;
    require_same(config);
  }
}

TEST_CASE("fused update: of processes, a parameter that no op reads in a step") {
  for (std::int64_t zero = 0; zero <= 3; ++zero) {
    INFO("comm.zero " << zero);
    require_success(2, [&](Communicator& processes) {
      VectorTraining apart(zero, false, processes), fused(zero, true, processes);
      for (int i = 0; i < 4; ++i) {
        apart.step(i == 0, ones());
        fused.step(i == 0, ones());
      }
      const std::vector<Tensor> values = fused.values();
      require(same_bits(values, apart.values()), "values");
      require(values[1].span<float>()[0] < 0.75F, "moments and decay change what is not read");
    });
  }
}

TEST_CASE("fused update: of processes, what is not finite in one is skipped in all") {
  for (std::int64_t zero = 0; zero <= 3; ++zero) {
    INFO("comm.zero " << zero);
    require_success(2, [&](Communicator& processes) {
      VectorTraining training(zero, true, processes);
      training.step(true, ones());
      const std::vector<Tensor> before = training.values();
      const Tensor outcome = training.step(false, ones(), std::nan(""));
      require(outcome.span<double>()[1] == 0.0 && std::isfinite(outcome.span<double>()[0]), "the loss");
      require(same_bits(training.values(), before), "a loss that is not finite changes nothing");
      Tensor seed = ones();
      seed.span<float>().back() = std::numeric_limits<float>::infinity();  // of the second process's elements
      const Tensor broken = training.step(false, seed);
      require(broken.span<double>()[1] == 0.0 && !std::isfinite(broken.span<double>()[0]), "the gradient");
    });
  }
}

TEST_CASE("fused update: a loss that is not finite in one process changes no weight in any") {
  for (std::int64_t zero = 0; zero <= 3; ++zero) {
    INFO("comm.zero " << zero);
    require_success(2, [&](Communicator& processes) {
      RunConfig config = fusible(small_language_run(), 2);
      config.optim.adamw.fused_update = true;
      config.comm.zero = zero;
      config.train = per_rank_config(config, 2);
      const std::unique_ptr<Task> task = synthetic_tasks(families().of(config))(config);
      // At stage 3, where the other reads a half of these weights, the losses of both are not finite.
      for (const NamedParameter& p : task->model().parameters()) {
        if (processes.rank() == 1) p.variable.value().fill(NAN);
      }
      const std::shared_ptr<ShardedParameters> sharded = shard_values(task->model(), config, processes);
      AdamW optimizer = make_optimizer(task->model(), config, processes, sharded.get());
      TrainStep step(*task, optimizer, config, processes, sharded);
      task->seek(0, step.part());
      const auto state = [&] {
        std::vector<Tensor> tensors;
        for (const Tensor& own : optimizer.own_values()) tensors.push_back(own.clone());
        for (const NamedTensor& entry : optimizer.state()) tensors.push_back(entry.tensor.clone());
        return tensors;
      };
      const std::vector<Tensor> before = state();
      step.begin(0, 0.01);
      const StepReport report = step.finish();
      require(report.skipped && !std::isfinite(report.loss), "a skipped step");
      require(same_bits(state(), before), "weights and moments as before");
    });
  }
}

TEST_CASE("fused update: processes with several micro-batches each are refused") {
  RunConfig config = fusible(small_language_run(), 2);
  config.optim.adamw.fused_update = true;
  CHECK(per_rank_config(config, 2).accumulate == 2);
  CHECK_THROWS_WITH(per_rank_config(config, 1),
                    "train.accumulate: expected 1 with optim.fused_update: true, which keeps no gradients to "
                    "add to, found 2; a larger train.batch_size makes the same steps in fewer parts");
  config.train.accumulate = 8;
  CHECK_THROWS_WITH(per_rank_config(config, 4),
                    Catch::Contains("expected at most 4, the number of processes, with optim.fused_update"));
}
