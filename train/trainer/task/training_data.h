#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "core/random.h"
#include "core/tensor.h"
#include "models/layers/attention_observer.h"
#include "train/trainer/task/step_statistics.h"

namespace moh {

struct TrainConfig;

/// The size of a step's data.
struct StepSize {
  /// In the task's unit. With cuda_graph the micro-batches of a step have equal shapes, the same in all steps
  /// of as many items, which so enqueue the same work on a device.
  std::int64_t items = 0;
  std::int64_t targets = 0;  ///< divisor of the summed loss; may be another number in each step
  bool operator==(const StepSize&) const = default;
};

/// The loss of one micro-batch, scaled so that the losses of a step sum to the step's loss. Everything stays
/// on the model's device.
struct MicroBatchLoss {
  Variable total;    ///< scalar, differentiated: task loss plus auxiliary losses
  Tensor task_loss;  ///< scalar, reported: the task loss only
  /// For the statistics of the step; the same layout until Task::set_progress() says that steps change.
  std::vector<NamedNumber> numbers = {};
};

/// The process for which a task fetches batches: of the M micro-batches of a step (train.accumulate of the
/// task's configuration), each of `processes` has M / processes, in the order of the ranks.
struct StepPart {
  std::int64_t rank = 0, processes = 1;

  /// Sample of the run with which the process's micro-batch number `index` begins, counted from sample
  /// `first_sample` of the run.
  std::int64_t first_of(std::int64_t index, std::int64_t first_sample, const TrainConfig& train) const;
};

class TrainingStep;

/// The data that a task trains on, with its loss, step by step. Samples are numbered through the whole run,
/// so that the data position is one number.
///
///     TrainingStep step = data.begin_step(count);
///     step.set_targets(sum of step.size().targets over the processes);
///     for each micro-batch: step.load(index).loss(generator)
///
/// Families implement the private functions: a loss can be had of a loaded micro-batch alone.
class TrainingData {
 public:
  virtual ~TrainingData() = default;

  /// Steps in which the data are seen once; 0 for data without epochs, and where their number is not known.
  virtual std::int64_t steps_per_epoch() const { return 0; }
  /// Sets the data position: training continues with sample `first_sample`, in steps of which this process
  /// computes `part`.
  virtual void seek(std::int64_t first_sample, const StepPart& part) = 0;
  /// Begins a step of which this process computes the next `count` micro-batches. After seek(); one step at a
  /// time. This object must outlive it.
  TrainingStep begin_step(std::int64_t count);
  /// Runs the model, without gradients, on one batch of the training data, always the same: its first. For
  /// comparisons of what layers do at different times. After seek(). Nothing where attention has no observer.
  virtual void run_first_batch(AttentionObserver& /*observer*/) {}

 private:
  friend class TrainingStep;
  friend class MicroBatch;

  virtual StepSize start_step(std::int64_t count) = 0;
  virtual void set_targets(std::int64_t /*targets*/) {}
  virtual void set_balance_loads(const std::vector<Tensor>& /*loads*/) {}
  /// On a GPU the memory is the same for all micro-batches and steps (train/trainer/task/data/place.h).
  virtual void load(std::int64_t index) = 0;
  virtual MicroBatchLoss loss(Generator& generator) = 0;
  virtual std::vector<Tensor> head_loads(Generator& /*generator*/) { return {}; }
  virtual void end_step() {}
};

/// A micro-batch that is loaded, until the next one is.
class MicroBatch {
 public:
  explicit MicroBatch(TrainingData& data) : data_(&data) {}

  /// The loss of the micro-batch. On a GPU this is captured, and replayed for other micro-batches: it does
  /// not synchronise, copies nothing from the host, and depends on step and micro-batch only through what
  /// TrainingStep::load() and set_targets() put into device memory, and the generator.
  MicroBatchLoss loss(Generator& generator) const { return data_->loss(generator); }
  /// The loads of the micro-batch, for a load-balance loss over the whole step: of each attention layer the
  /// share of its tokens that select each routed head, or what else its loss takes for f
  /// (Routing::balance_load), as in a following loss() with the same random numbers; undefined where no head
  /// is routed. Captured as loss() is.
  std::vector<Tensor> head_loads(Generator& generator) const { return data_->head_loads(generator); }

 private:
  TrainingData* data_;
};

/// A step that has begun, until it is destroyed.
class TrainingStep {
 public:
  TrainingStep(TrainingData& data, std::int64_t count) : data_(data), size_(data.start_step(count)) {}
  ~TrainingStep() { data_.end_step(); }
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// The size of this process's micro-batches.
  StepSize size() const { return size_; }
  /// The targets of the step, of all processes: the divisor of the loss. On a GPU it is put into device
  /// memory, where the loss reads it. Before load().
  void set_targets(std::int64_t targets) { data_.set_targets(targets); }
  /// From now on losses take these loads for the load-balance loss (ForwardContext::balance_loads).
  void set_balance_loads(const std::vector<Tensor>& loads) { data_.set_balance_loads(loads); }
  /// Puts micro-batch `index` where its loss reads it. In order, and in a second turn for the losses if the
  /// first one was for head_loads().
  MicroBatch load(std::int64_t index) {
    data_.load(index);
    return MicroBatch(data_);
  }

 private:
  TrainingData& data_;
  StepSize size_;
};

inline TrainingStep TrainingData::begin_step(std::int64_t count) {
  return {*this, count};
}

}  // namespace moh
