#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "core/host_copy.h"
#include "train/comm/collective_memory.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/weight_average.h"
#include "train/trainer/run/balance_biases.h"
#include "train/trainer/run/replicas.h"
#include "train/trainer/run/step_graphs.h"
#include "train/trainer/run/step_loads.h"
#include "train/trainer/run/step_operations.h"
#include "train/trainer/task/task.h"

namespace moh {

/// The result of one step.
struct StepReport {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  ///< the loss or the gradient was not finite, so there was no update
  StepStatistics statistics;
  double seconds = 0;       ///< of the host's clock
  double data_seconds = 0;  ///< thereof, waiting for the step's data
  double comm_seconds = 0;  ///< thereof, waiting for other processes
  double flops = 0;         ///< of this process's part (StepOperations)
};

/// Training steps: `config.train.accumulate` micro-batches forward and backward, clipping, AdamW, the moving
/// average of the weights if there is one. On a GPU, begin() enqueues a step without blocking and finish()
/// waits for it, so that the next step is enqueued before the result of the last is read and the device never
/// idles. The Trainer and `moh bench step` both use this class. The phases of a step (autograd/profile.h) are
/// forward, from the batches to the losses; backward; and optimizer: gradient norm, clipping and update.
/// Waiting for data, dropping old gradients, and statistics belong to none.
///
/// Several processes divide the micro-batches of a step among them (Replicas). Gradients are summed while the
/// last backward pass goes on; the losses, which the update depends on, too, every process gets from all, so
/// that all make the same update, or none.
///
/// Where the load-balance loss is over the whole step (BalanceScope::kGlobal), and that has several
/// micro-batches, a forward pass of each without gradients comes first, and tells the loads (StepLoads): the
/// loss is linear in the probabilities, and its gradient needs of the other micro-batches nothing but these.
///
/// Biases of the selection (MohConfig::balance_bias) follow the update, from the loads that all micro-batches
/// of all processes report (BalanceBiases).
///
/// With config.optim.adamw.fused_update parameters are updated within the backward pass (FusedUpdate), if the
/// losses are finite, which every process gets from all before that pass.
///
/// With config.cuda_graph the stages of a step are captured as CUDA graphs (StepGraphs) once kRehearsals
/// steps of its size have run, and replayed from then on; steps of other sizes, traced ones (StepTrace), and
/// those before is_settled(), are launched kernel by kernel. They are captured anew when the progress of the
/// training changes what a step computes (Task::set_progress). What differs between steps and micro-batches
/// lies in device memory, and is copied there before each: data, number of targets, random stream, the
/// micro-batch's number, learning rate.
class TrainStep {
 public:
  static constexpr int kRehearsals = StepGraphs::kRehearsals;

  /// The arguments must outlive this object. `config` is that of the task; its train.accumulate is a multiple
  /// of the number of processes. Between GPUs processes.on_device() is there, and with config.cuda_graph its
  /// collectives can be captured. `sharded` as for make_replicas().
  TrainStep(Task& task, AdamW& optimizer, const RunConfig& config, Communicator& processes = one_process(),
            const std::shared_ptr<ShardedParameters>& sharded = nullptr);

  /// `step` is the number of steps before this one; random numbers are a function of it and of config.seed.
  /// Returns the size of the step's data. On the CPU the step is complete when this returns.
  StepSize begin(std::int64_t step, double learning_rate);
  /// begin(), unless `stop`, which is called before each micro-batch, returns true: then the step is
  /// abandoned without changing the parameters, and it returns false. `stop` must return the same in all
  /// processes.
  bool begin_unless(FunctionRef<bool()> stop, std::int64_t step, double learning_rate);
  /// Calls `wait` before each update of the parameters. Not for captured steps.
  void before_update(std::function<void()> wait) { before_update_ = std::move(wait); }
  /// Number of steps that were begun and not finished.
  std::size_t under_way() const { return under_way_.size(); }
  /// Whether steps are replayed.
  bool captured() const { return graphs_ && graphs_->captured(); }
  /// Does other work while no step is under way, on a GPU with memory that captured steps need only while
  /// they run (StepGraphs::lend()). It may read parameters, in the same order in all processes.
  void lend_memory(FunctionRef<void()> work);
  /// Nodes of the captured graphs; 0 before the capture.
  std::size_t graph_nodes() const { return graphs_ ? graphs_->num_nodes() : 0; }
  /// Seconds that the driver took to make them ready for launches.
  double graph_instantiation_seconds() const { return graphs_ ? graphs_->instantiation_seconds() : 0; }
  /// The moving average of the weights; null without config.ema.
  const WeightAverage* average() const { return average_ ? &*average_ : nullptr; }
  /// The average's decay is the same in all steps, as it was in the steps before.
  void end_average_warmup() { average_->end_warmup(); }
  /// Gives the model the weights that are evaluated, as long as the result lives: their average, or with null
  /// their own.
  std::unique_ptr<WeightsScope> evaluated_weights() const;
  /// The share of a step that this process computes, for Task::seek().
  StepPart part() const { return part_; }
  /// Waits for the oldest step under way and returns its report.
  StepReport finish();
  /// Makes the parameters current, before they are read outside of a step. A collective.
  void complete_parameters() { replicas_->complete_parameters(); }
  /// Forgets what is captured: further steps are captured anew. Their replays have ended, or their device
  /// does not compute any more.
  void release_graphs() noexcept;
  /// Whether parameters are updated within the backward pass.
  bool is_fused() const { return fused_ != nullptr; }

 private:
  /// A micro-batch where its pass reads it, and the random numbers of the pass.
  struct Loaded {
    MicroBatch batch;
    Generator generator;
  };
  /// A step that is enqueued and not finished.
  struct Pending {
    StepReport report;
    StepSize size;
    double began;
    HostCopy numbers;
    std::shared_ptr<const NumberLayout> layout;
  };

  void set_progress(std::int64_t step);
  void read(Pending& step);
  StepStage stage_of(std::int64_t micro_batch) const;
  void run(StepStage stage, FunctionRef<void()> work);
  bool compute(TrainingStep& data, FunctionRef<bool()> stop, std::int64_t step,
               const std::vector<StepSize>& sizes, StepReport& report);
  bool count_loads(TrainingStep& data, FunctionRef<bool()> stop, std::int64_t step, double& data_seconds);
  Loaded load(TrainingStep& data, std::int64_t step, std::int64_t micro_batch, double& data_seconds);
  void forward_backward(std::int64_t micro_batch, const MicroBatch& batch, Generator generator);
  void begin_fused_update(const MicroBatchLoss& loss);
  void keep(const MicroBatchLoss& loss);
  Tensor losses_and_numbers_of_all();
  Tensor update_parameters(const Tensor& losses);
  void update_biases(const Tensor& all, const Tensor& go) const;
  void update();

  Task& task_;
  AdamW& optimizer_;
  std::optional<WeightAverage> average_;
  const RunConfig& config_;
  std::unique_ptr<Replicas> replicas_;
  FusedUpdate* fused_;  // with optim.adamw.fused_update
  StepPart part_;
  std::int64_t own_micro_batches_;
  std::optional<StepLoads> loads_;  // counts_loads_first()
  BalanceBiases biases_;
  StepOperations operations_;
  std::function<void()> before_update_ = [] {};
  RunLength length_;
  /// int64, on the device: the number of the micro-batch among this process's of the step, and that of its
  /// first random stream.
  Tensor micro_batch_;
  Tensor own_;  // float64: the losses of this process's micro-batches, and the task's numbers
  CollectiveMemory own_memory_;  // of several processes, which gather them
  Tensor all_;                   // losses_and_numbers_of_all(), where a fused update has asked for them
  Tensor numbers_;  // float64: the update's outcome, the losses of all micro-batches, the task's numbers
  std::shared_ptr<const NumberLayout> layout_;  // of the task's numbers, in the steps that are now begun
  std::optional<StepGraphs> graphs_;            // with config.cuda_graph
  bool captures_ = false;                       // whether this step runs in graphs_
  std::deque<Pending> under_way_;
  double finished_at_ = 0;  // when the last report was read
};

}  // namespace moh
