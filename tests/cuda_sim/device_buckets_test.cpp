// Gradients that are summed between GPUs while the backward pass goes on: what the queues of a device may do
// early or late, a wait that is missing, and a gradient that comes when its bucket is on its way.

#include <catch2/catch.hpp>
#include <exception>
#include <optional>

#include "autograd/node.h"
#include "core/cuda/backend.h"
#include "core/cuda/graph.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/cuda_sim/lost_wait.h"
#include "tests/cuda_sim/stream.h"
#include "tests/cuda_sim/training_run.h"
#include "tests/cuda_sim/twin_gpus.h"
#include "tests/ops/device_ways.h"
#include "train/trainer/run/gradient_buckets.h"

using namespace moh;
using namespace moh::test;
using sim::Timing;

namespace {

constexpr int kSteps = 6;
constexpr int kCapturedIn = TrainStep::kRehearsals;  // the step that is captured

struct Twins {
  TwinProcesses processes;
  TwinGpus gpus{processes};
};

/// A run on two GPUs, with a bucket for each parameter.
RunConfig twin_run(std::int64_t micro_batches_each, bool graph) {
  RunConfig config = small_run();
  config.train.accumulate = 2 * micro_batches_each;
  config.comm.bucket_mib = 0;
  config.cuda_graph = graph;
  return config;
}

struct Outcome {
  std::vector<double> numbers;
  std::vector<Tensor> state;

  bool operator==(const Outcome& other) const {
    return numbers == other.numbers && same_bits(state, other.state);
  }
};

/// `seeded` is called before each step.
Outcome train(
    const RunConfig& config, const std::function<void(int)>& seeded = [](int) {}) {
  Twins twins;
  TrainingRun run(config, language_family(), twins.processes);
  Outcome outcome;
  for (int i = 0; i < kSteps; ++i) {
    seeded(i);
    const StepReport report = run.step();
    outcome.numbers.push_back(report.loss);
    outcome.numbers.push_back(report.gradient_norm);
  }
  CHECK(run.captured() == config.cuda_graph);
  outcome.state = run.state();
  return outcome;
}

/// The outcome of training if one of the waits of the captured step does nothing; nothing if it is refused.
std::optional<Outcome> train_without(int wait, Timing timing, int* waits = nullptr) {
  const sim::Streams::TimingScope scope(timing);
  std::optional<sim::LostWait> lost;
  try {
    return train(twin_run(1, true), [&](int step) {
      if (lost && waits != nullptr) *waits = lost->waits();
      lost.reset();
      if (step == kCapturedIn) lost.emplace(wait);
    });
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE(
    "sim: a captured step sums its gradients beside the backward pass, with the bits of one that waits") {
  const std::int64_t micro_batches = GENERATE(1, 2, 4);
  INFO(micro_batches << " micro-batches of each process");
  const Outcome expected = train(twin_run(micro_batches, false));
  for (const Timing timing : {Timing::kAtOnce, Timing::kLate, Timing::kAhead}) {
    INFO("timing " << static_cast<int>(timing));
    const sim::Streams::TimingScope scope(timing);
    CHECK(train(twin_run(micro_batches, true)) == expected);
    CHECK(train(twin_run(micro_batches, false)) == expected);
  }
}

TEST_CASE("sim: each wait between the queues of a captured step is needed, and found if it is missing") {
  const Outcome expected = train(twin_run(1, false));
  int waits = 0;
  CHECK(train_without(-1, Timing::kAhead, &waits) == expected);
  CHECK(waits > 10);  // a fork where buckets are complete, and their join; those of the losses
  for (int wait = 0; wait < waits; ++wait) {
    INFO("wait " << wait << " of " << waits);
    const bool is_found =
        train_without(wait, Timing::kAhead) != expected || train_without(wait, Timing::kLate) != expected;
    CHECK(is_found);
  }
}

namespace {

Variable parameter() {
  return Variable(full({300}, 1.0, DType::kFloat32, open_gpu()), /*requires_grad=*/true);
}

/// y = x, whose backward pass adds to the leaf what the pass knows nothing of, and so does not await.
Variable with_late_gradient(const Variable& x, Variable leaf, bool seeded) {
  return record("with_late_gradient", x.value().clone(), {x},
                [leaf, seeded](const Tensor& dy) mutable -> Grads {
                  if (seeded) leaf.accumulate_grad(dy);
                  return {dy};
                });
}

/// The gradient of `a`, from two processes: 2 x 5, and of its late part 2 x 1 if that came in time.
double gradient_with(bool seeded) {
  Twins twins;
  Variable a = parameter(), b = parameter();
  GradientBuckets buckets(twins.processes, {b, a}, {0, DType::kFloat32});
  for (Variable* leaf : {&a, &b}) leaf->zero_grad();
  buckets.begin_step();
  buckets.expect_pass(true);
  const Variable late = with_late_gradient(scale(b, 3), a, seeded);
  const Variable y = add(late, scale(a, 5));  // which the pass visits first
  y.backward(full(y.shape(), 1.0, DType::kFloat32, y.device()));
  buckets.finish_pass(true);
  return a.grad().slice(0, 1).reshape({}).item();
}

}  // namespace

TEST_CASE("sim: a bucket that is reduced before its last gradient shows") {
  CHECK(gradient_with(false) == 10);
  CHECK(gradient_with(true) == 11);  // and not 12
}

TEST_CASE("sim: a pass that is taken for the last one is refused when another follows") {
  Twins twins;
  Variable a = parameter();
  GradientBuckets buckets(twins.processes, {a}, {0, DType::kFloat32});
  const auto differentiate = [&] {
    const Variable y = scale(a, 2);
    y.backward(full(y.shape(), 1.0, DType::kFloat32, y.device()));
  };
  buckets.begin_step();
  differentiate();
  buckets.expect_pass(true);
  differentiate();
  CHECK_THROWS_WITH(differentiate(), Catch::Contains("a hook runs once in a backward pass"));
  buckets.finish_pass(true);
}

TEST_CASE("sim: buckets of a GPU are in memory of their own") {
  Twins twins;
  Variable a = parameter();
  const GradientBuckets buckets(twins.processes, {a}, {0, DType::kFloat32});
  a.accumulate_grad(full({300}, 2.0, DType::kFloat32, a.device()));
  CHECK_NOTHROW(cuda::require_persistent(a.grad().raw(), a.grad().bytes(), "gradients"));
}
