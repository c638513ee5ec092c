#pragma once

#include <functional>

#include "tests/support/language_runs.h"
#include "tests/support/same_bits.h"
#include "train/run/train_step.h"

namespace moh::test {

/// A small model with routed heads, dropout and two micro-batches per step, on the simulated GPU.
RunConfig small_run();

/// The task of a run on made-up data.
std::unique_ptr<Task> synthetic_task(const RunConfig& config, const Family& family = language_family());

/// A run of training without its files.
class TrainingRun {
 public:
  explicit TrainingRun(const RunConfig& config, const Family& family = language_family());

  /// Asks for the next step; returns how often the host waited meanwhile.
  std::int64_t begin();
  StepReport finish() { return train_step_.finish(); }
  StepReport step() {
    begin();
    return finish();
  }

  bool captured() const { return train_step_.captured(); }
  AdamW& optimizer() { return optimizer_; }
  Task& task() { return *task_; }
  /// Parameters and the optimiser's state, on the CPU.
  std::vector<Tensor> state() const;

 private:
  RunConfig config_;
  std::unique_ptr<Task> task_;
  AdamW optimizer_;
  TrainStep train_step_;
  std::int64_t step_ = 0;
};

/// Trains for eight steps with and without a CUDA graph, uses the model for something else after the sixth,
/// and checks that both give the same bits, that no two steps do, and that the host waits for none from the
/// third on.
void check_same_with_graph(RunConfig config, const std::function<void(const Model&)>& use,
                           const Family& family = language_family());

}  // namespace moh::test
