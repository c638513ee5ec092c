#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "models/layers/attention_observer.h"
#include "models/model.h"
#include "train/trainer/task/held_out_data.h"
#include "train/trainer/task/training_data.h"

namespace moh {

/// The unit of a task's items.
struct Unit {
  std::string_view singular;    ///< "token", "image"
  std::string_view plural;      ///< "tokens", "images": also the key of the item count in metrics.jsonl
  std::string_view per_second;  ///< "tok/s"
};

/// Name and direction of the score of evaluations.
struct Score {
  std::string_view name;  ///< "loss": its key in metrics.jsonl
  bool higher_is_better = false;
};

/// Prints text of Task::finish() for the user.
using PrintText = FunctionRef<void(const std::string& text)>;

/// Binds a model, its data and its loss; the Trainer's only interface to them.
class Task : public TrainingData, public HeldOutData {
 public:
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
  /// finish(run_folder, print, stop): called at the end of a run, in all processes; may write files to its
  /// folder, whose path is empty in processes that write nothing, and print. Calls `stop` regularly; if it
  /// returns true, writes nothing and returns false.
  virtual bool finish(const std::filesystem::path&, PrintText, FunctionRef<bool()>) const { return true; }
};

}  // namespace moh
