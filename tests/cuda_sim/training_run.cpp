#include "tests/cuda_sim/training_run.h"

#include <utility>

#include "tests/cuda_sim/stream.h"
#include "train/trainer/run/start_model.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"

namespace moh::test {

namespace {

RunConfig of_rank(RunConfig config, const Communicator& processes) {
  config.train = per_rank_config(config, processes.size());
  return config;
}

std::unique_ptr<Task> task_of_rank(const RunConfig& config, const Family& family, Communicator& processes,
                                   std::shared_ptr<ShardedParameters>& sharded) {
  StartedModel started = new_model(config, family, processes);
  sharded = started.sharded;
  if (sharded) sharded->end_filling();
  return family.make_task(config, family.open_data(config, DataUse::kSynthetic), std::move(started.model));
}

}  // namespace

RunConfig small_run(Device device) {
  RunConfig config = default_language_run();
  config.device = device;
  config.seed = 5;
  LlamaConfig& model = model_of(config);
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.max_positions = 16;
  model.dropout = 0.1;
  model.moh.router = routers::kLearned;
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

TrainingRun::TrainingRun(const RunConfig& config, const Family& family, Communicator& processes)
    : config_(of_rank(config, processes)),
      task_(task_of_rank(config_, family, processes, sharded_)),
      optimizer_(make_optimizer(task_->model(), config_, processes, sharded_.get())),
      train_step_(*task_, optimizer_, config_, processes, sharded_) {
  task_->seek(0, train_step_.part());
}

std::int64_t TrainingRun::begin() {
  const std::int64_t before = sim::Streams::instance().waits();
  // A rate, as everything else, that is another each time.
  const double learning_rate = config_.schedule.peak / static_cast<double>(1 + step_);
  train_step_.begin(step_++, learning_rate);
  return sim::Streams::instance().waits() - before;
}

std::vector<Tensor> TrainingRun::values() const {
  std::vector<Tensor> values;
  for (const NamedParameter& p : task_->model().parameters())
    values.push_back(p.variable.value().to(kCpu).clone());
  if (sharded_) sharded_->after_reading();
  return values;
}

std::vector<Tensor> TrainingRun::state() const {
  std::vector<Tensor> state = values();
  for (const NamedTensor& entry : optimizer_.state()) state.push_back(entry.tensor.to(kCpu).clone());
  return state;
}

}  // namespace moh::test
