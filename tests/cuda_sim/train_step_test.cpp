#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "models/layers/linear.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/cuda_sim/same_with_graph.h"
#include "tests/cuda_sim/stream.h"
#include "tests/cuda_sim/training_run.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/run/train_step.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("sim: a warm training step does not make the host wait") {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
      RunConfig config = small_run();
      config.precision = precision;
      model_of(config).moh.router = router;
      if (router == routers::kNone) model_of(config).moh.num_shared = model_of(config).moh.top_k = 0;
      const sim::Streams::TimingScope late(sim::Timing::kLate);
      TrainingRun run(config);
      run.step();
      run.begin();
      for (int i = 0; i < 3; ++i) {
        INFO(name_of(precision) << ", " << name_of(router) << ", step " << i + 2);
        CHECK(run.begin() == 0);
        // The report of the step before is what the host waits for, once.
        const std::int64_t before = sim::Streams::instance().waits();
        CHECK(std::isfinite(run.finish().loss));
        CHECK(sim::Streams::instance().waits() - before == 1);
      }
    }
  }
  // The count sees what it should.
  const std::int64_t before = sim::Streams::instance().waits();
  full({}, 1.0, DType::kFloat32, small_run().device).item();
  CHECK(sim::Streams::instance().waits() > before);
}

TEST_CASE("sim: a device that is a step behind computes and reports the same") {
  TrainingRun at_once(small_run());
  std::vector<StepReport> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(at_once.step());
  const sim::Streams::TimingScope late(sim::Timing::kLate);
  TrainingRun behind(small_run());
  std::vector<StepReport> found;
  behind.begin();
  for (int i = 1; i < 5; ++i) {
    behind.begin();
    found.push_back(behind.finish());
  }
  found.push_back(behind.finish());
  for (std::size_t i = 0; i < 5; ++i) {
    INFO("step " << i);
    CHECK(found[i].loss == expected[i].loss);
    CHECK(found[i].gradient_norm == expected[i].gradient_norm);
    CHECK(found[i].statistics.scalars == expected[i].statistics.scalars);
    CHECK(found[i].statistics.rows == expected[i].statistics.rows);
    CHECK(found[i].statistics.rows.size() == 1);
    CHECK(found[i].statistics.items == 64);
  }
  CHECK(same_bits(behind.state(), at_once.state()));
}

TEST_CASE("sim: a step that is not finite leaves the weights as they are, and the host learns of it later") {
  TrainingRun run(small_run());
  run.step();
  const NamedParameter first = run.task().model().parameters().front();
  const Tensor kept = first.variable.value().clone();
  first.variable.value().fill(INFINITY);
  run.begin();
  first.variable.value().copy_from(kept);
  run.begin();
  CHECK(run.finish().skipped);
  CHECK(run.optimizer().steps() == 1);
  const StepReport next = run.finish();
  CHECK_FALSE(next.skipped);
  CHECK(std::isfinite(next.loss));
  CHECK(run.optimizer().steps() == 2);

  first.variable.value().fill(INFINITY);
  const std::vector<Tensor> state = run.state();
  CHECK(run.step().skipped);
  CHECK(same_bits(run.state(), state));
}

namespace {

void compute_logits(const Model& model) {
  const NoGrad no_grad;
  const Tensor tokens = full({3, 7}, 11, DType::kInt64);
  CHECK(dynamic_cast<const Llama&>(model).forward(tokens).logits.value().all_finite());
}

}  // namespace

TEST_CASE("sim: a captured step gives the same bits as one that is not") {
  for (const bool late : {false, true}) {
    const sim::Streams::TimingScope scope(late ? sim::Timing::kLate : sim::Timing::kAtOnce);
    INFO((late ? "late" : "prompt"));
    RunConfig config = small_run();
    check_same_with_graph(config, compute_logits);
    config.precision = Precision::kBFloat16;
    model_of(config).recompute = RecomputeLevel::kLayer;
    check_same_with_graph(config, compute_logits);
    model_of(config).moh.router = routers::kQueryNorm;
    model_of(config).recompute = RecomputeLevel::kNone;
    config.train.accumulate = 1;
    check_same_with_graph(config, compute_logits);
  }
}

TEST_CASE("sim: a fused update, captured or not, gives the bits of one after the backward pass") {
  for (const bool late : {false, true}) {
    const sim::Streams::TimingScope scope(late ? sim::Timing::kLate : sim::Timing::kAtOnce);
    for (const Precision gradients : {Precision::kFloat32, Precision::kBFloat16}) {
      RunConfig config = small_run();
      config.precision = Precision::kBFloat16;
      config.optim.adamw.gradients = gradients;
      config.optim.adamw.clip_grad_norm = 0;
      config.train.accumulate = 1;
      model_of(config).recompute = RecomputeLevel::kLayer;
      TrainingRun apart(config);
      config.optim.adamw.fused_update = true;
      TrainingRun fused(config);
      for (int i = 0; i < 3; ++i) {
        const StepReport expected = apart.step(), found = fused.step();
        CHECK(found.loss == expected.loss);
        CHECK(found.gradient_norm == expected.gradient_norm);
        CHECK_FALSE(found.skipped);
      }
      CHECK(same_bits(fused.state(), apart.state()));
      check_same_with_graph(config, compute_logits);
    }
  }
}

TEST_CASE("sim: a fused update whose loss is not finite changes nothing") {
  for (const bool captured : {false, true}) {
    RunConfig config = small_run();
    config.optim.adamw.clip_grad_norm = 0;
    config.optim.adamw.fused_update = true;
    config.train.accumulate = 1;
    config.cuda_graph = captured;
    TrainingRun run(config);
    for (int i = 0; i < 4; ++i) run.step();
    REQUIRE(run.captured() == captured);
    const NamedParameter first = run.task().model().parameters().front();
    const Tensor kept = first.variable.value().clone();
    first.variable.value().fill(NAN);
    const std::vector<Tensor> before = run.state();
    CHECK(run.step().skipped);
    CHECK(same_bits(run.state(), before));
    first.variable.value().copy_from(kept);
    CHECK_FALSE(run.step().skipped);
    CHECK(run.optimizer().steps() == 5);
  }
}

TEST_CASE("sim: gradients in bfloat16, captured, over micro-batches") {
  RunConfig config = small_run();
  config.precision = Precision::kBFloat16;
  config.optim.adamw.gradients = Precision::kBFloat16;
  check_same_with_graph(config, compute_logits);
}

TEST_CASE("sim: a captured step that is not finite leaves the weights as they are") {
  RunConfig config = small_run();
  config.cuda_graph = true;
  TrainingRun run(config);
  for (int i = 0; i < 4; ++i) run.step();
  REQUIRE(run.captured());
  const NamedParameter first = run.task().model().parameters().front();
  const Tensor kept = first.variable.value().clone();
  first.variable.value().fill(NAN);
  const std::vector<Tensor> before = run.state();
  CHECK(run.step().skipped);
  CHECK(same_bits(run.state(), before));
  first.variable.value().copy_from(kept);
  CHECK_FALSE(run.step().skipped);
  CHECK(run.optimizer().steps() == 5);
}

namespace {

/// A linear classifier that sees batches of two sizes: every fourth is a smaller one.
class TwoSizes : public Task {
 public:
  explicit TwoSizes(Device device) : model_(device) {
    for (const std::int64_t rows : {6, 2}) inputs_.push_back(zeros({rows, 8}, DType::kFloat32, device));
  }

  const Model& model() const override { return model_; }
  Unit unit() const override { return {"number", "numbers", "numbers/s"}; }
  Score score() const override { return {"loss"}; }
  std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const override { return {}; }
  std::string summary() const override { return {}; }
  void seek(std::int64_t, const StepPart&) override {}
  StepSize start_step(std::int64_t) override {
    present_ = step_ % 4 == 3 ? 1 : 0;
    inputs_[present_].fill(0.1 * static_cast<double>(++step_));
    return {inputs_[present_].numel(), inputs_[present_].dim(0)};
  }
  void load(std::int64_t) override {}
  MicroBatchLoss loss(Generator&) override {
    ++asked_;
    const Variable logits = model_(Variable(inputs_[present_]));
    const Tensor targets = zeros({logits.dim(0)}, DType::kInt64, logits.device());
    const Variable loss = cross_entropy(logits, targets, {.normalizer = static_cast<double>(logits.dim(0))});
    return {loss, loss.value()};
  }
  void end_step() override {}
  std::optional<Evaluation> evaluate(StopEvaluation, Communicator&) override { return std::nullopt; }
  std::vector<std::pair<std::string, std::string>> identity() const override { return {}; }

  int asked() const { return asked_; }

 private:
  class Classifier final : public Model {
   public:
    explicit Classifier(Device device)
        : Model({DType::kFloat32, device}), map_(8, 3, /*bias=*/false, {DType::kFloat32, device}) {
      add_child("map", map_);
      initialise(1);
    }
    std::string_view family() const override { return "classifier"; }
    void initialise(std::uint64_t seed) override { fill_normal(map_.weight().value(), {seed, 1}, 0, 1); }
    double init_std() const override { return 1; }
    std::vector<HeadRoutingOptions> routing() const override { return {}; }
    std::vector<const HeadRouter*> routers() const override { return {}; }
    Variable operator()(const Variable& x) const { return map_(x); }

   private:
    Linear map_;
  };

  Classifier model_;
  std::vector<Tensor> inputs_;
  std::size_t present_ = 0;
  std::int64_t step_ = 0;
  int asked_ = 0;
};

}  // namespace

TEST_CASE("sim: a step of another size than the captured one is asked for kernel by kernel") {
  const auto losses_of = [](bool cuda_graph) {
    RunConfig config = small_run();
    config.cuda_graph = cuda_graph;
    config.train.accumulate = 1;
    TwoSizes task(config.device);
    AdamW optimizer(task.model(), config.optim.adamw);
    TrainStep step(task, optimizer, config);
    std::vector<double> numbers;
    for (int i = 0; i < 12; ++i) {
      step.begin(i, 0.01);
      const StepReport report = step.finish();
      numbers.push_back(report.loss);
      numbers.push_back(report.gradient_norm);
      CHECK(report.statistics.items == (i % 4 == 3 ? 16 : 48));
    }
    CHECK(task.asked() == (cuda_graph ? 6 : 12));  // two rehearsals, the capture, and the smaller ones
    const Tensor w = task.model().parameters()[0].variable.value().to(kCpu);
    numbers.insert(numbers.end(), w.span<float>().begin(), w.span<float>().end());
    return numbers;
  };
  CHECK(losses_of(true) == losses_of(false));
}
