#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "core/random.h"
#include "models/module.h"

namespace moh {

/// The data of a step. Steps of equal sizes ask the device for the same work.
struct StepSize {
  std::int64_t tokens = 0;   ///< inputs that are read
  std::int64_t targets = 0;  ///< by their number the loss is divided
  bool operator==(const StepSize&) const = default;
};

/// The loss of one micro-batch, as its share of the whole step: what is differentiated, and what is reported.
/// All of it stays on the model's device.
struct MicroBatchLoss {
  Variable total;               ///< scalar: task loss plus auxiliary losses
  Tensor task_loss;             ///< scalar: the task loss alone
  std::vector<Tensor> numbers;  ///< what statistics() wants to know of it; the same shapes each time
};

/// What a step did besides its loss, over all its micro-batches.
struct StepStatistics {
  std::int64_t tokens = 0;             ///< inputs that were read
  std::optional<double> balance_loss;  ///< mean over routed layers and micro-batches; none when dense
  std::vector<std::vector<float>>
      head_load;  ///< per layer: share of tokens that each routed head served, by number
  std::optional<double> activated_heads;  ///< share of heads whose attention was computed; none when dense
};

/// An evaluation on held-out data.
struct Evaluation {
  double loss = 0;  ///< the one that checkpoints are ranked by; lower is better
  std::vector<std::pair<std::string, double>> metrics;  ///< others, by name
};

/// Binds a model, its data and its loss; the Trainer knows nothing else about what it trains. Samples are
/// numbered over the whole run, so that the data position is one number.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Module& model() const = 0;
  /// Gets ready to train from sample `first_sample` on.
  virtual void seek(std::int64_t first_sample) = 0;
  /// Fetches the next `count` micro-batches. On a GPU they go to the same places each time.
  virtual StepSize begin_step(std::int64_t count) = 0;
  /// Loss of micro-batch `index` of those that begin_step fetched. On a GPU this waits for nothing, copies
  /// nothing from the host, and depends on the step through the data and the generator alone.
  virtual MicroBatchLoss loss(std::int64_t index, Generator& generator) = 0;
  /// The micro-batches are no longer needed.
  virtual void end_step() = 0;
  /// Statistics of a step of `count` micro-batches, from their numbers, one after another.
  virtual StepStatistics statistics(const StepSize& size, std::int64_t count,
                                    std::span<const double> numbers) const = 0;
  /// Evaluates on all held-out data. Nothing when there is none, and when `stop`, which is asked before each
  /// batch, says so.
  virtual std::optional<Evaluation> evaluate(FunctionRef<bool()> stop) = 0;
  /// What a checkpoint must agree with besides tensors: (name, value) pairs, such as the tokenizer.
  virtual std::vector<std::pair<std::string, std::string>> identity() const = 0;
};

}  // namespace moh
