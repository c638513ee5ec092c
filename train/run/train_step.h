#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "core/cuda/graph.h"
#include "core/function_ref.h"
#include "core/host_copy.h"
#include "train/config/run_config.h"
#include "train/optim/adamw.h"
#include "train/tasks/task.h"

namespace moh {

/// What one step came to.
struct StepReport {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  ///< the loss or the gradient was not finite, so the weights are as they were
  StepStatistics statistics;
  double seconds = 0;  ///< of the host's clock
};

/// Steps of training: `config.train.accumulate` micro-batches forward and backward, clipping, AdamW. On a GPU
/// a step is asked for and reported separately, so that the device always has work: begin() waits for
/// nothing, finish() for the device. The Trainer and `moh bench step` both use this, so that what is measured
/// is what trains. The parts of a step are phases (autograd/profile.h): forward, from the batches to the
/// losses; backward; optimizer, which is gradient norm, clipping and update. In none are waiting for data,
/// dropping old gradients, and statistics.
///
/// With config.cuda_graph a step of a size that has come a few times is captured, and replayed from then on;
/// one of another size is asked for kernel by kernel, as all are without.
class TrainStep {
 public:
  /// Steps of one size before it is captured: the first loads kernels and libraries and makes what lasts, the
  /// second has the memory that the captured one will have.
  static constexpr int kRehearsals = 2;

  /// All of them outlive the object.
  TrainStep(Task& task, AdamW& optimizer, const RunConfig& config);

  /// `step` is the number of steps before this one; random numbers are a function of it and of config.seed.
  /// Returns the inputs that the step reads. On the CPU it is done when this returns.
  StepSize begin(std::int64_t step, double learning_rate);
  /// The same, unless `stop`, which is called before each micro-batch that is not replayed, returns true:
  /// then the step is given up, the parameters are as they were, and it returns false.
  bool begin_unless(FunctionRef<bool()> stop, std::int64_t step, double learning_rate);
  /// Steps that were begun and not finished.
  std::size_t under_way() const { return under_way_.size(); }
  /// Whether steps are replayed.
  bool captured() const { return graph_ != nullptr && graph_->captured(); }
  /// The report of the oldest of them.
  StepReport finish();

 private:
  /// What is known of a step before the device has done it.
  struct Pending {
    StepReport report;
    StepSize size;
    double began;
    HostCopy numbers;
  };

  bool compute(FunctionRef<bool()> stop, const StepSize& size, Generator generator);
  void compute_with_graph(const StepSize& size, FunctionRef<void()> work);
  Tensor forward_backward_update(FunctionRef<bool()> stop, Generator generator);

  Task& task_;
  AdamW& optimizer_;
  const RunConfig& config_;
  Tensor first_stream_;  // of the step's random numbers; on a GPU only
  Tensor numbers_;       // float64: the update's outcome, the losses of the micro-batches, the task's numbers
  std::unique_ptr<cuda::Graph> graph_;  // null without config.cuda_graph
  StepSize repeated_;                   // the size of the last steps, or of the captured one
  int repetitions_ = 0;                 // of it, before the capture
  Tensor captured_numbers_;
  std::deque<Pending> under_way_;
  double finished_at_ = 0;  // when the last report was read
};

}  // namespace moh
