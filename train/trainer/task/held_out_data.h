#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/function_ref.h"

namespace moh {

class Communicator;

/// More about an evaluation than its metrics, for `moh eval`.
class EvaluationDetails {
 public:
  virtual ~EvaluationDetails() = default;
  /// As text, in lines.
  virtual std::string table() const = 0;
  /// The details, and more, as a JSON object.
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

/// Progress of an evaluation, in the task's unit.
struct EvaluationProgress {
  std::int64_t done = 0, total = 0;
};
/// Called before each batch of an evaluation; returns true to stop it.
using StopEvaluation = FunctionRef<bool(const EvaluationProgress&)>;

/// The data that a task holds out, on which it evaluates its model.
class HeldOutData {
 public:
  virtual ~HeldOutData() = default;

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
};

}  // namespace moh
