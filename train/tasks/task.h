#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "core/random.h"
#include "models/forward_context.h"
#include "models/layers/attention_observer.h"
#include "models/model.h"
#include "train/comm/communicator.h"
#include "train/config/run_config.h"
#include "train/tasks/step_statistics.h"

namespace moh {

/// The unit of a task's items.
struct Unit {
  std::string_view singular;    ///< "token", "image"
  std::string_view plural;      ///< "tokens", "images": also the key of the item count in metrics.jsonl
  std::string_view per_second;  ///< "tok/s"
};

/// The size of a step's data.
struct StepSize {
  /// In the task's unit. The micro-batches of a step have equal shapes, and these are the same in all steps
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
  std::int64_t first_of(std::int64_t index, std::int64_t first_sample, const TrainConfig& train) const {
    const std::int64_t own = train.accumulate / processes;
    return first_sample + train.batch_size * (index / own * train.accumulate + rank * own + index % own);
  }
};

/// More about an evaluation than its metrics, for `moh eval`.
class EvaluationDetails {
 public:
  virtual ~EvaluationDetails() = default;
  /// As text, in lines.
  virtual std::string table() const = 0;
  /// The same, and more, as a JSON object.
  virtual std::string json() const = 0;
};

/// The result of an evaluation on held-out data.
struct Evaluation {
  double score = 0;                                     ///< ranks checkpoints; described by Task::score()
  std::vector<std::pair<std::string, double>> metrics;  ///< further metrics, by name
  std::shared_ptr<const EvaluationDetails> details;     ///< null: none
  std::string coverage;  ///< a description of the evaluated data: "65536 of 111540 tokens, sequences of 256"
  std::int64_t evaluated = 0, held_out = 0;  ///< items that were evaluated, of those that are held out
};

/// Name and direction of the score of evaluations.
struct Score {
  std::string_view name;  ///< "loss": its key in metrics.jsonl
  bool higher_is_better = false;
};

/// Progress of an evaluation, in the task's unit.
struct EvaluationProgress {
  std::int64_t done = 0, total = 0;
};
/// Called before each batch of an evaluation; returns true to stop it.
using StopEvaluation = FunctionRef<bool(const EvaluationProgress&)>;

/// Prints text of Task::finish() for the user.
using PrintText = FunctionRef<void(const std::string& text)>;

/// Binds a model, its data and its loss; the Trainer's only interface to them. Samples are numbered through
/// the whole run, so that the data position is one number.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Model& model() const = 0;
  virtual Unit unit() const = 0;
  virtual Score score() const = 0;
  /// The sizes of one sample, by configuration key, for reports: {"sequence_length", 256}.
  virtual std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const { return {}; }
  /// A one-line description of the model.
  virtual std::string summary() const = 0;

  /// Tells, before each step, which share of the training is done; tasks pass it to Model::set_progress and
  /// return what that returns.
  virtual bool set_progress(double /*share*/) { return false; }

  /// Gives it the teacher of init.distill, if that is a model of its own: one of the same family, and the
  /// hash of its weights.
  virtual void set_teacher(std::unique_ptr<Model> /*model*/, const std::string& /*hash*/) {}

  /// Steps in which the data are seen once; 0 for data without epochs, and where their number is not known.
  virtual std::int64_t steps_per_epoch() const { return 0; }

  /// Sets the data position: training continues with sample `first_sample`, in steps of which this process
  /// computes `part`.
  virtual void seek(std::int64_t first_sample, const StepPart& part) = 0;
  /// Begins a step of which this process computes the next `count` micro-batches.
  virtual StepSize begin_step(std::int64_t count) = 0;
  /// The targets of the step, of all processes: the divisor of the loss. Called after begin_step(). On a GPU
  /// it is put into device memory, where loss() reads it.
  virtual void set_targets(std::int64_t /*targets*/) {}
  /// Puts micro-batch `index` of the step where loss() reads it; called in order, and in a second turn for
  /// loss() if the first one was for head_loads(). On a GPU that is the same memory for all micro-batches and
  /// steps (train/tasks/data/place.h).
  virtual void load(std::int64_t index) = 0;
  /// The loss of the micro-batch that was loaded last. On a GPU this is captured, and replayed for other
  /// micro-batches: it does not synchronise, copies nothing from the host, and depends on step and
  /// micro-batch only through what load() and set_targets() put into device memory, and the generator.
  virtual MicroBatchLoss loss(Generator& generator) = 0;
  /// The loads of the micro-batch that was loaded last, for a load-balance loss over the whole step: of each
  /// attention layer the share of its tokens that select each routed head, as in a following loss() with the
  /// same random numbers; undefined where no head is routed. Captured as loss() is.
  virtual std::vector<Tensor> head_loads(Generator& /*generator*/) { return {}; }
  /// From now on loss() takes these loads for the load-balance loss (ForwardContext::balance_loads).
  virtual void set_balance_loads(const std::vector<Tensor>& /*loads*/) {}
  /// Runs the model, without gradients, on one batch of the training data, always the same: its first. For
  /// comparisons of what layers do at different times. After seek(). Nothing where attention has no observer.
  virtual void run_first_batch(AttentionObserver& /*observer*/) {}
  /// Called when the micro-batches are no longer needed.
  virtual void end_step() {}

  /// Evaluates on the held-out data. Returns nothing if there are none, or if `stop` returned true. Each of
  /// the processes computes some of the batches, and calls `stop` as often as the others; all get the same
  /// result, which does not depend on their number.
  virtual std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator& processes) = 0;
  /// Forward passes, in samples, of an evaluation and of draw_samples() after it: by them the time of the
  /// first one is estimated.
  virtual double evaluation_samples() const { return 0; }
  /// Makes a picture of what the model makes, to be looked at while it trains, after an evaluation and with
  /// its weights: a PNG file's bytes, the same for any number of processes; empty where the task shows none.
  /// Returns nothing if `stop` returned true, which each of the processes calls as often as the others.
  virtual std::optional<std::string> draw_samples(StopEvaluation /*stop*/, Communicator& /*processes*/) {
    return "";
  }
  /// (name, value) pairs, such as the tokenizer's hash, that have to be the same in a checkpoint.
  virtual std::vector<std::pair<std::string, std::string>> identity() const { return {}; }
  /// (name, contents) of files that each checkpoint keeps, so that the model can be used without others:
  /// those of the tokenizer (CheckpointContents::files).
  virtual std::vector<std::pair<std::string, std::string>> files() const { return {}; }
  /// (configuration key, description) pairs of the data's contents, which must not change when a run is
  /// resumed.
  virtual std::vector<std::pair<std::string, std::string>> data_contents() const { return {}; }
  /// (name, text) pairs for the summary at the end of a run.
  virtual std::vector<std::pair<std::string, std::string>> remarks() const { return {}; }
  /// finish(run_folder, print, stop): called at the end of a run; may write files to its folder and print.
  /// Calls `stop` regularly; if it returns true, writes nothing and returns false.
  virtual bool finish(const std::filesystem::path&, PrintText, FunctionRef<bool()>) const { return true; }
};

}  // namespace moh
