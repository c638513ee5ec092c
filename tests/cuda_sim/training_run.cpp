#include "tests/cuda_sim/training_run.h"

#include <catch2/catch.hpp>

#include "tests/cuda_sim/stream.h"
#include "tests/ops/device_ways.h"
#include "train/run/trainer.h"
#include "train/tasks/load_model.h"

namespace moh::test {

RunConfig small_run() {
  RunConfig config = default_language_run();
  config.device = open_gpu();
  config.seed = 5;
  LlamaConfig& model = model_of(config);
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.max_positions = 16;
  model.dropout = 0.1;
  model.moh.router = RouterKind::kLearned;
  model.moh.num_shared = 1;
  model.moh.top_k = 1;
  language_run(config).data.sequence_length = 16;
  config.train.batch_size = 2;
  config.train.accumulate = 2;
  config.schedule.peak = 0.01;
  return config;
}

std::unique_ptr<Task> synthetic_task(const RunConfig& config, const Family& family) {
  return family.make_task(config, family.open_data(config, DataUse::kSynthetic),
                          make_initialised_model(family, config));
}

TrainingRun::TrainingRun(const RunConfig& config, const Family& family)
    : config_(config),
      task_(synthetic_task(config_, family)),
      optimizer_(task_->model(), config.optim.adamw),
      train_step_(*task_, optimizer_, config_) {
  task_->seek(0, {});
}

std::int64_t TrainingRun::begin() {
  const std::int64_t before = sim::Streams::instance().waits();
  // A rate, as everything else, that is another each time.
  const double learning_rate = config_.schedule.peak / static_cast<double>(1 + step_);
  train_step_.begin(step_++, learning_rate);
  return sim::Streams::instance().waits() - before;
}

std::vector<Tensor> TrainingRun::state() const {
  std::vector<Tensor> state;
  for (const NamedParameter& p : task_->model().parameters())
    state.push_back(p.variable.value().to(kCpu).clone());
  for (const NamedTensor& entry : optimizer_.state()) state.push_back(entry.tensor.to(kCpu).clone());
  return state;
}

namespace {

struct Steps {
  std::vector<StepReport> reports;
  std::vector<Tensor> state;
};

/// Eight steps, each report read a step late.
Steps eight_steps(const RunConfig& config, const std::function<void(const Model&)>& use,
                  const Family& family) {
  TrainingRun run(config, family);
  Steps result;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t waits = run.begin();
    if (i >= 2) CHECK(waits == 0);
    CHECK(run.captured() == (config.cuda_graph && i >= 2));
    if (i > 0) result.reports.push_back(run.finish());
    if (i == 5) use(run.task().model());
  }
  result.reports.push_back(run.finish());
  result.state = run.state();
  return result;
}

}  // namespace

void check_same_with_graph(RunConfig config, const std::function<void(const Model&)>& use,
                           const Family& family) {
  config.cuda_graph = false;
  const Steps expected = eight_steps(config, use, family);
  config.cuda_graph = true;
  const Steps found = eight_steps(config, use, family);
  CHECK(same_bits(found.state, expected.state));
  for (std::size_t i = 0; i < 8; ++i) {
    INFO("step " << i);
    CHECK(found.reports[i].loss == expected.reports[i].loss);
    CHECK(found.reports[i].gradient_norm == expected.reports[i].gradient_norm);
    CHECK(found.reports[i].statistics.scalars == expected.reports[i].statistics.scalars);
    CHECK(found.reports[i].statistics.rows == expected.reports[i].statistics.rows);
  }
  for (std::size_t i = 1; i < 8; ++i)  // or a replay of old data would not be noticed
    CHECK(found.reports[i].loss != found.reports[i - 1].loss);
}

}  // namespace moh::test
