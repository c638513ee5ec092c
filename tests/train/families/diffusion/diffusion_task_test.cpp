#include "train/families/diffusion/diffusion_task.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/diffusion/sinusoids.h"
#include "tests/support/family_training.h"
#include "tests/support/same_bits.h"
#include "train/comm/communicator.h"
#include "train/families/diffusion/diffusion_evaluation.h"
#include "train/families/diffusion/diffusion_family.h"
#include "train/trainer/config/load_run_config.h"

using namespace moh;
using namespace moh::test;

namespace {

DiffusionRun& of_family(RunConfig& run) {
  return dynamic_cast<DiffusionRun&>(*run.family);
}

/// A small MoH model on drawn pictures of 8 pixels.
RunConfig small_run() {
  RunConfig run = default_run(diffusion_family().defaults());
  DiffusionRun& own = of_family(run);
  own.model = {
      .image_size = 8, .patch_size = 2, .channels = 3, .classes = 8, .layers = 2, .hidden = 32, .heads = 4};
  own.model.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  own.data.drawn = 64;
  own.data.drawn_validation = 20;
  run.train.batch_size = 8;
  run.train.steps = 4;
  return run;
}

std::unique_ptr<Task> task_of(const RunConfig& run, DataUse use = DataUse::kTraining) {
  return new_task(diffusion_family(), run, use);
}

struct Training : FamilyTraining {
  explicit Training(const RunConfig& config, std::int64_t first_sample = 0)
      : FamilyTraining(diffusion_family(), config, first_sample) {}
};

std::vector<double> losses_of(const RunConfig& run, std::int64_t steps) {
  Training training(run);
  std::vector<double> losses;
  for (std::int64_t i = 0; i < steps; ++i) losses.push_back(training.next(i).loss);
  return losses;
}

double scalar(const StepReport& report, std::string_view name) {
  for (const NamedScalar& s : report.statistics.scalars) {
    if (s.name == name) return s.value;
  }
  FAIL(name);
  return 0;
}

}  // namespace

TEST_CASE("diffusion task: numbers of threads and of workers change no bit, nor does where it resumes") {
  RunConfig run = small_run();
  run.train.accumulate = 2;
  const std::vector<double> expected = losses_of(run, 3);
  for (const int threads : {1, 3}) {
    const int before = num_threads();
    set_num_threads(threads);
    of_family(run).data.workers = 4 - threads;
    CHECK(losses_of(run, 3) == expected);
    set_num_threads(before);
  }
  Training first(run), second(run, 16);
  first.task->seek(16, {});
  CHECK(first.next(1).loss == second.next(1).loss);
}

TEST_CASE(
    "diffusion task: a step reports both parts of its loss, which fall, and leaves the positions alone") {
  RunConfig run = small_run();
  Training training(run);
  const Tensor positions = training.task->model().parameters().front().variable.value().clone();
  REQUIRE(training.task->model().parameters().front().name == "pos_embed");
  const StepReport first = training.next(0);
  CHECK(first.statistics.items == 8);
  CHECK(first.loss == Approx(scalar(first, "noise_mse") + scalar(first, "bound_bits")).epsilon(1e-5));
  CHECK(scalar(first, "noise_mse") == Approx(1).margin(0.1));  // a new model predicts zeros
  CHECK(scalar(first, "balance_loss") > 1);
  double last = 0;
  for (std::int64_t i = 1; i < 60; ++i) last = scalar(training.next(i), "noise_mse");
  CHECK(last < 0.7);
  CHECK(same_bits(training.task->model().parameters().front().variable.value(), positions));
}

TEST_CASE("diffusion task: evaluations are alike whatever the batch, and say what they are of") {
  RunConfig run = small_run();
  const auto never = [](const EvaluationProgress&) { return false; };
  const std::optional<Evaluation> whole = task_of(run)->evaluate(never, one_process());
  REQUIRE(whole);
  CHECK(whole->coverage == "20 of 20 images");
  CHECK(whole->score == Approx(whole->metrics[0].second + whole->metrics[1].second));
  CHECK(whole->metrics[0].first == "noise_mse");
  run.train.batch_size = 3;
  CHECK(task_of(run)->evaluate(never, one_process())->score == Approx(whole->score).epsilon(1e-6));
  CHECK_FALSE(task_of(run)->evaluate([](const EvaluationProgress&) { return true; }, one_process()));
  of_family(run).data.drawn_validation = 0;
  CHECK_FALSE(task_of(run)->evaluate(never, one_process()));
}

TEST_CASE("diffusion samples: noise, step and label are functions of the seed and the sample") {
  const RunConfig run = small_run();
  const NoisySamples samples(diffusion_run(run).model, {.label_dropout = 0.5});
  const auto made = [&](std::uint64_t seed, std::int64_t sample) {
    DiffusionBatch batch = samples.begin(1);
    batch.targets.start.fill(0);
    batch.labels.fill(3);
    samples.make(batch, 0, seed, sample);
    return batch;
  };
  CHECK(same_bits(made(1, 5).targets.sample, made(1, 5).targets.sample));
  CHECK_FALSE(same_bits(made(1, 5).targets.noise, made(1, 6).targets.noise));
  CHECK_FALSE(same_bits(made(1, 5).targets.noise, made(2, 5).targets.noise));
  double step = 0, dropped = 0;
  std::set<std::int64_t> steps;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const DiffusionBatch batch = made(1, i);
    const std::int64_t own = batch.steps.data<std::int64_t>()[0],
                       label = batch.labels.data<std::int64_t>()[0];
    REQUIRE((own >= 0 && own < kDiffusionSteps));
    REQUIRE((label == 3 || label == 8));
    step += static_cast<double>(own) / 2000;
    dropped += label == 8 ? 1.0 / 2000 : 0;
    steps.insert(own);
  }
  CHECK(step == Approx(499.5).margin(25));
  CHECK(dropped == Approx(0.5).margin(0.04));
  CHECK(steps.size() > 800);
}

TEST_CASE("diffusion task: a flow trains on velocities, with the same bits in any number of threads") {
  RunConfig run = small_run();
  of_family(run).diffusion.objective = DiffusionObjective::kFlow;
  of_family(run).diffusion.path = FlowPath::kCosine;
  const std::vector<double> expected = losses_of(run, 3);
  const int before = num_threads();
  set_num_threads(3);
  CHECK(losses_of(run, 3) == expected);
  set_num_threads(before);
  Training training(run);
  const StepReport first = training.next(0);
  CHECK(first.loss == Approx(scalar(first, "velocity_mse")).epsilon(1e-6));
  for (const NamedScalar& s : first.statistics.scalars) CHECK(s.name != "bound_bits");
  double last = 0;
  for (std::int64_t i = 1; i < 60; ++i) last = scalar(training.next(i), "velocity_mse");
  CHECK(last < 0.75 * scalar(first, "velocity_mse"));
  const auto never = [](const EvaluationProgress&) { return false; };
  const std::optional<Evaluation> whole = task_of(run)->evaluate(never, one_process());
  REQUIRE(whole->metrics.size() == 1);
  CHECK(whole->metrics[0] == std::pair<std::string, double>("velocity_mse", whole->score));
}

TEST_CASE(
    "diffusion samples: those of a flow lie on its path, at times of the distribution that is asked for") {
  const DitConfig model = diffusion_run(small_run()).model;
  const auto times_of = [&](const DiffusionConfig& trained) {
    const NoisySamples samples(model, trained);
    std::vector<double> times;
    for (std::int64_t i = 0; i < 2000; ++i) {
      DiffusionBatch batch = samples.begin(1);
      batch.targets.start.fill(0.5);
      batch.labels.fill(3);
      samples.make(batch, 0, 1, i);
      // x_t and the velocity of the linear path have the time in them: x_t = t / 2 + (1 - t) eps, v = 1 / 2 -
      // eps.
      const double x = batch.targets.sample.data<float>()[0], v = batch.targets.noise.data<float>()[0];
      const double t = 1 + (x - 0.5) / v;
      times.push_back(t);
      std::vector<float> embedding(kTimeWidth);
      time_embedding(t, embedding);
      for (std::size_t j = 0; j < embedding.size(); ++j)
        REQUIRE(batch.steps.span<float>()[j] == Approx(embedding[j]).margin(0.01));
    }
    std::ranges::sort(times);
    return times;
  };
  const auto quarters = [](const std::vector<double>& times) {
    return std::vector<double>{times[500], times[1000], times[1500]};
  };
  const std::vector<double> uniform = quarters(times_of({.objective = DiffusionObjective::kFlow}));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(uniform[i] == Approx(0.25 * static_cast<double>(i + 1)).margin(0.04));
  const std::vector<double> logit = quarters(times_of({.objective = DiffusionObjective::kFlow,
                                                       .time_sampling = TimeSampling::kLogitNormal,
                                                       .time_mean = -0.5,
                                                       .time_std = 0.8}));
  constexpr double kQuartile = 0.6745;  // of the standard normal distribution
  for (std::size_t i = 0; i < 3; ++i) {
    const double normal = -0.5 + 0.8 * kQuartile * (static_cast<double>(i) - 1);
    CHECK(logit[i] == Approx(1 / (1 + std::exp(-normal))).margin(0.03));
  }
}

TEST_CASE("diffusion samples: velocities of the 1000 steps are made of the noise that objective noise has") {
  const DitConfig model = diffusion_run(small_run()).model;
  const auto made = [&](DiffusionObjective objective) {
    const NoisySamples samples(model, {.objective = objective});
    DiffusionBatch batch = samples.begin(1);
    batch.targets.start.fill(0.25);
    batch.labels.fill(3);
    samples.make(batch, 0, 1, 7);
    return batch;
  };
  const DiffusionBatch noise = made(DiffusionObjective::kNoise),
                       velocity = made(DiffusionObjective::kVelocity);
  CHECK(same_bits(noise.targets.sample, velocity.targets.sample));
  CHECK(same_bits(noise.steps, velocity.steps));
  const NoiseStep step = NoiseSchedule::linear(kDiffusionSteps)[noise.steps.data<std::int64_t>()[0]];
  for (std::int64_t i = 0; i < noise.targets.noise.numel(); ++i)
    CHECK(velocity.targets.noise.data<float>()[i] ==
          Approx(step.signal * noise.targets.noise.data<float>()[i] - step.noise * 0.25).margin(1e-6));
}

TEST_CASE("diffusion task: velocities train the first half of a model's outputs alone") {
  const Tensor values = empty({2, 6, 2, 2}, DType::kFloat32), start = empty({2, 3, 2, 2}, DType::kFloat32);
  fill_normal(values, {1, 1}, 0, 1);
  fill_normal(start, {1, 2}, 0, 1);
  const DiffusionTargets targets{start, start, start, zeros({2, kDiffusionFactors}, DType::kFloat32)};
  const Variable prediction(values, true);
  const DiffusionLoss loss = objective_loss(DiffusionObjective::kFlow, prediction, targets, 2.0);
  loss.loss.backward();
  double expected = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::int64_t b = i / 24, j = i % 24;
    const float gradient = prediction.grad().data<float>()[i];
    if (j >= 12) {
      CHECK(gradient == 0);
      continue;
    }
    const double off = values.data<float>()[i] - start.data<float>()[12 * b + j];
    CHECK(gradient == Approx(2 * off / 12 / 2).epsilon(1e-5));
    expected += off * off / 12 / 2;
  }
  CHECK(loss.loss.value().item() == Approx(expected).epsilon(1e-5));
}

TEST_CASE("diffusion task: synthetic latents have as many channels as the model") {
  RunConfig run = small_run();
  of_family(run).model.channels = 4;
  const std::unique_ptr<Task> task = task_of(run, DataUse::kSynthetic);
  task->seek(0, {});
  TrainingStep step = task->begin_step(1);
  CHECK(step.size().items == 8);
  Generator generator(1, 0);
  CHECK(step.load(0).loss(generator).total.value().item() > 0);
}
