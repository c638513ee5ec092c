// Loss-free balancing: what a step does to the biases of the selection, and that it balances.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "tests/support/image_runs.h"
#include "tests/support/language_runs.h"
#include "tests/support/same_bits.h"
#include "tests/support/thread_processes.h"
#include "tests/train/trainer/run/in_parts.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kRate = 0.02;

RunConfig language(double rate) {
  RunConfig run = default_language_run();
  LlamaConfig& model = model_of(run);
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 8;
  model.kv_heads = 2;
  model.max_positions = 16;
  model.moh = {.router = routers::kLearned, .num_shared = 2, .top_k = 2};
  model.moh.balance_weight = 0;
  model.moh.balance_bias = rate;
  language_run(run).data.sequence_length = 16;
  return run;
}

/// A run, of one process unless others are given.
struct Training {
  Training(const RunConfig& of, const Family& family, Communicator& processes = one_process())
      : run(of),
        task(family.make_task(run, family.open_data(run, DataUse::kSynthetic),
                              make_initialised_model(family, run))),
        optimizer(task->model(), run.optim.adamw),
        step(*task, optimizer, run, processes) {
    task->seek(0, step.part());
  }

  StepReport advance(std::int64_t number, double learning_rate = 1e-3) {
    step.begin(number, learning_rate);
    return step.finish();
  }
  std::vector<Tensor> biases() const {
    std::vector<Tensor> found;
    for (const HeadRouter* const router : task->model().routers()) {
      if (router != nullptr && router->balance_bias().defined())
        found.push_back(router->balance_bias().clone());
    }
    return found;
  }

  RunConfig run;
  std::unique_ptr<Task> task;
  AdamW optimizer;
  TrainStep step;
};

const std::vector<std::vector<float>>& loads_of(const StepReport& report) {
  REQUIRE(report.statistics.rows.at(0).first == "head_load");
  return report.statistics.rows[0].second;
}

/// The largest load over the mean load, of the last fifty of `steps` steps together, in the layer where that
/// is most.
double imbalance_after(const RunConfig& run, std::int64_t steps) {
  Training training(run, language_family());
  std::vector<std::vector<double>> sums;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepReport report = training.advance(i, 3e-3);
    const auto& loads = loads_of(report);
    sums.resize(loads.size(), std::vector<double>(loads[0].size()));
    for (std::size_t layer = 0; layer < loads.size() && i >= steps - 50; ++layer) {
      for (std::size_t e = 0; e < loads[layer].size(); ++e)
        sums[layer][e] += static_cast<double>(loads[layer][e]);
    }
  }
  double most = 0;
  for (const std::vector<double>& layer : sums) {
    const double mean = std::accumulate(layer.begin(), layer.end(), 0.0) / static_cast<double>(layer.size());
    most = std::max(most, std::ranges::max(layer) / mean);
  }
  return most;
}

}  // namespace

TEST_CASE("train: biases of the selection even out the loads, without any balance loss") {
  const double without = imbalance_after(language(0), 300), with = imbalance_after(language(0.005), 300);
  INFO(without << " without biases, " << with << " with them");
  CHECK(without > 1.5);
  CHECK(with < 1.2);
}

TEST_CASE("train: a step moves each bias by the rate, against its head's load of the step") {
  const bool within = GENERATE(false, true);
  INFO((within ? "within groups" : "heads"));
  RunConfig run = in_parts(language(kRate), 4);
  if (within) model_of(run).moh.routing = routings::kWithinGroups;
  if (within) model_of(run).moh.router = routers::kQueryNorm;
  Training training(run, language_family());
  const auto loads = loads_of(training.advance(0));
  const std::vector<Tensor> biases = training.biases();
  REQUIRE(biases.size() == loads.size());
  const std::size_t size = within ? 3 : 6;
  for (std::size_t layer = 0; layer < biases.size(); ++layer) {
    REQUIRE(loads[layer].size() == 6);
    for (std::size_t e = 0; e < 6; ++e) {
      const double mean = (within ? 1.0 : 2.0) / static_cast<double>(size), load = loads[layer][e];
      const double expected = std::abs(load - mean) < 1e-6 ? 0 : load < mean ? kRate : -kRate;
      CHECK(biases[layer].span<float>()[e] == Approx(expected));
    }
  }
}

TEST_CASE("train: biases depend neither on how a step is divided nor on the processes") {
  std::vector<Tensor> expected;
  for (const std::int64_t accumulate : {1, 2, 8}) {
    Training training(in_parts(language(kRate), accumulate), language_family());
    training.advance(0);
    if (expected.empty()) expected = training.biases();
    CHECK(same_bits(training.biases(), expected));
  }
  require_success(4, [&](Communicator& processes) {
    Training training(in_parts(language(kRate), 4), language_family(), processes);
    training.advance(0);
    if (!same_bits(training.biases(), expected)) throw ValueError("biases");
  });
}

TEST_CASE("train: a step that is skipped leaves the biases where they are") {
  Training training(language(kRate), language_family());
  training.advance(0);
  const std::vector<Tensor> before = training.biases();
  CHECK_FALSE(std::ranges::all_of(before[0].span<float>(), [](float bias) { return bias == 0; }));
  training.optimizer.set_limits({.loss = 1e-9});
  CHECK(training.advance(1).skipped);
  CHECK(same_bits(training.biases(), before));
  training.optimizer.set_limits({});
  CHECK_FALSE(training.advance(2).skipped);
  CHECK_FALSE(same_bits(training.biases(), before));
}

TEST_CASE("train: the moving average of the weights takes biases as they are") {
  RunConfig run = language(kRate);
  run.ema.decay = 0.9;
  Training training(run, language_family());
  for (std::int64_t i = 0; i < 3; ++i) training.advance(i);
  std::size_t found = 0;
  for (const auto& [name, tensor] : training.step.average()->state()) {
    if (!name.ends_with("e_score_correction_bias")) continue;
    CHECK(same_bits(tensor, training.biases().at(found)));
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("train: image models have biases of the selection, too") {
  for (const ImageArchitecture architecture : {ImageArchitecture::kVit, ImageArchitecture::kTransNext}) {
    RunConfig run = small_image_run(architecture);
    run.family->moh()->balance_bias = kRate;
    Training training(run, image_family());
    training.advance(0);
    REQUIRE_FALSE(training.biases().empty());
    for (const Tensor& bias : training.biases())
      CHECK(std::ranges::any_of(bias.span<float>(), [](float each) { return each != 0; }));
  }
}
