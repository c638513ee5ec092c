#pragma once

#include <memory>
#include <vector>

#include "tests/ops/device_ways.h"
#include "tests/support/language_runs.h"
#include "tests/support/same_bits.h"
#include "train/trainer/run/train_step.h"

namespace moh::test {

/// A small model with routed heads, dropout and two micro-batches per step, on a simulated GPU.
RunConfig small_run(Device device = open_gpu());

/// The task of a run on made-up data.
std::unique_ptr<Task> synthetic_task(const RunConfig& config, const Family& family = language_family());

/// A run of training without its files.
class TrainingRun {
 public:
  explicit TrainingRun(const RunConfig& config, const Family& family = language_family(),
                       Communicator& processes = one_process());

  /// Asks for the next step; returns how often the host waited meanwhile.
  std::int64_t begin();
  StepReport finish() { return train_step_.finish(); }
  StepReport step() {
    begin();
    return finish();
  }

  bool captured() const { return train_step_.captured(); }
  void lend_memory(FunctionRef<void()> work) { train_step_.lend_memory(work); }
  void complete_parameters() { train_step_.complete_parameters(); }
  void release_graphs() noexcept { train_step_.release_graphs(); }
  AdamW& optimizer() { return optimizer_; }
  Task& task() { return *task_; }
  /// The parameters, on the CPU. A collective where they are divided.
  std::vector<Tensor> values() const;
  /// The parameters and the optimiser's state, which is not divided.
  std::vector<Tensor> state() const;

 private:
  RunConfig config_;
  std::shared_ptr<ShardedParameters> sharded_;  // outlives the model
  std::unique_ptr<Task> task_;
  AdamW optimizer_;
  TrainStep train_step_;
  std::int64_t step_ = 0;
};

}  // namespace moh::test
