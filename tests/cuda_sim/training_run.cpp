#include "tests/cuda_sim/training_run.h"

#include <cstring>

#include "tests/cuda_sim/stream.h"
#include "tests/ops/device_ways.h"
#include "train/bench/random_tokens.h"
#include "train/trainer/trainer.h"

namespace moh::test {

RunConfig small_run() {
  RunConfig config;
  config.device = open_gpu();
  config.seed = 5;
  ModelConfig& model = config.model;
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.max_positions = 16;
  model.dropout = 0.1;
  model.moh.router = RouterChoice::kLearned;
  model.moh.shared.every = 1;
  model.moh.routed.every = 1;
  config.data.sequence_length = 16;
  config.train.batch_size = 2;
  config.train.accumulate = 2;
  config.optim.learning_rate = 0.01;
  return config;
}

TrainingRun::TrainingRun(const RunConfig& config)
    : config_(config),
      task_(config_, random_language_data(config.model.vocab_size, static_cast<std::uint64_t>(config.seed))),
      optimizer_(task_.model().parameters(), adamw_options_of(config.optim)),
      train_step_(task_, optimizer_, config_) {
  task_.seek(0);
}

std::int64_t TrainingRun::begin() {
  const std::int64_t before = sim::Stream::instance().waits();
  // A rate, as everything else, that is another each time.
  const double learning_rate = config_.optim.learning_rate / static_cast<double>(1 + step_);
  train_step_.begin(step_++, learning_rate);
  return sim::Stream::instance().waits() - before;
}

std::vector<Tensor> TrainingRun::state() const {
  std::vector<Tensor> state;
  for (const NamedParameter& p : task_.model().parameters())
    state.push_back(p.variable.value().to(kCpu).clone());
  for (const NamedTensor& entry : optimizer_.state()) state.push_back(entry.tensor.to(kCpu).clone());
  return state;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].bytes() != b[i].bytes() || std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()) != 0) return false;
  return a.size() == b.size();
}

}  // namespace moh::test
