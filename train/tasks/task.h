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
#include "models/model.h"

namespace moh {

struct RunConfig;

/// What a task counts its inputs in.
struct Unit {
  std::string_view singular;    ///< "token", "image"
  std::string_view plural;      ///< "tokens", "images": also the key of their number in metrics.jsonl
  std::string_view per_second;  ///< "tok/s"
};

/// The data of a step. Steps of equal sizes enqueue the same work on a device.
struct StepSize {
  std::int64_t items = 0;    ///< inputs that are read, in the task's unit
  std::int64_t targets = 0;  ///< by their number the loss is divided
  bool operator==(const StepSize&) const = default;
};

/// The loss of one micro-batch, as its share of the whole step: what is differentiated, and what is reported.
/// All of it stays on the model's device.
struct MicroBatchLoss {
  Variable total;               ///< scalar: task loss plus auxiliary losses
  Tensor task_loss;             ///< scalar: the task loss alone
  std::vector<Tensor> numbers;  ///< what statistics() reads of it; the same shapes each time
};

/// A number under its key in metrics.jsonl. With a `label`, people see it, too: as a percentage behind the
/// label while training runs, and in the summary of the run by its key.
struct NamedScalar {
  std::string_view name;
  double value = 0;
  std::string_view label = {};

  bool operator==(const NamedScalar&) const = default;
};

/// What a step did besides its loss, over all its micro-batches.
struct StepStatistics {
  std::int64_t items = 0;            ///< inputs that were read
  std::vector<NamedScalar> scalars;  ///< "balance_loss"; "activated_heads", shown as "heads"
  /// Lists, one per layer: "head_load", the share of tokens that each routed head served, by number.
  std::vector<std::pair<std::string_view, std::vector<std::vector<float>>>> rows;
};

/// An evaluation on held-out data.
struct Evaluation {
  double score = 0;                                     ///< what checkpoints are ranked by: Task::score()
  std::vector<std::pair<std::string, double>> metrics;  ///< others, by name
  std::string coverage;  ///< what was evaluated, for people: "65536 of 111540 tokens, sequences of 256"
};

/// The score of an evaluation.
struct Score {
  std::string_view name;  ///< "loss": its key in metrics.jsonl
  bool higher_is_better = false;
};

/// How far an evaluation is, in the task's unit.
struct EvaluationProgress {
  std::int64_t done = 0, total = 0;
};
/// Called before each batch of an evaluation; true ends it.
using StopEvaluation = FunctionRef<bool(const EvaluationProgress&)>;

/// Where a task's finish() puts what people see.
using PrintText = FunctionRef<void(const std::string& text)>;

/// Binds a model, its data and its loss; the Trainer knows nothing else about what it trains. Samples are
/// numbered over the whole run, so that the data position is one number.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Model& model() const = 0;
  virtual Unit unit() const = 0;
  virtual Score score() const = 0;
  /// The sizes of one sample under the names of their keys, for reports: {"sequence_length", 256}.
  virtual std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const { return {}; }
  /// The model in a line, for people.
  virtual std::string summary() const = 0;

  /// Gets ready to train from sample `first_sample` on.
  virtual void seek(std::int64_t first_sample) = 0;
  /// Fetches the next `count` micro-batches. On a GPU they have the same addresses each time.
  virtual StepSize begin_step(std::int64_t count) = 0;
  /// Loss of micro-batch `index` of those that begin_step fetched. On a GPU this waits for nothing, copies
  /// nothing from the host, and depends on the step through the data and the generator alone.
  virtual MicroBatchLoss loss(std::int64_t index, Generator& generator) = 0;
  /// The micro-batches are no longer needed.
  virtual void end_step() {}
  /// statistics(size, count, numbers) of a step of `count` micro-batches, from their numbers, one after
  /// another.
  virtual StepStatistics statistics(const StepSize& size, std::int64_t, std::span<const double>) const {
    return {.items = size.items, .scalars = {}, .rows = {}};
  }

  /// Evaluates on the held-out data. Nothing when there is none, and when `stop` returns true.
  virtual std::optional<Evaluation> evaluate(StopEvaluation stop) = 0;
  /// What a checkpoint must agree with besides tensors: (name, value) pairs, such as the tokenizer.
  virtual std::vector<std::pair<std::string, std::string>> identity() const { return {}; }
  /// What the data are made of, for people: (key of the configuration, contents) pairs. A run that goes on
  /// with others is another run.
  virtual std::vector<std::pair<std::string, std::string>> data_contents() const { return {}; }
  /// finish(run_folder, print, stop): what a finished run leaves beside its checkpoints: writes into its
  /// folder, prints for people. False, and nothing is left, when `stop`, which is called now and then,
  /// returned true.
  virtual bool finish(const std::filesystem::path&, PrintText, FunctionRef<bool()>) const { return true; }
};

}  // namespace moh
