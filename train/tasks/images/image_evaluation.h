#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/vision/image_model.h"
#include "train/tasks/images/data/picture_batch.h"
#include "train/tasks/task.h"

namespace moh {

/// Logits [N, classes] in float32 of rows with these labels, counted by class. Rows whose label is
/// kIgnoredTarget do not count.
class ClassCounts {
 public:
  explicit ClassCounts(std::int64_t classes);
  void add(const Tensor& logits, const Tensor& labels);
  /// Adds what the other processes have counted.
  void add_of_all(Communicator& processes);

  std::int64_t classes() const { return classes_; }
  /// Pictures that were counted.
  std::int64_t total() const { return total_; }
  /// Pictures of class `label` that were taken for class `predicted`.
  std::int64_t confused(std::int64_t label, std::int64_t predicted) const {
    return confusion_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
  std::int64_t of_class(std::int64_t label) const;
  /// Pictures of class `label` that has one of the five largest logits.
  std::int64_t among_five(std::int64_t label) const { return among_five_[static_cast<std::size_t>(label)]; }
  /// Share of pictures whose class has one of the k largest logits, for k = 1 and k = 5.
  double top1() const;
  double top5() const;

 private:
  std::int64_t classes_, total_ = 0, first_ = 0;
  std::vector<std::int64_t> confusion_, among_five_;
};

/// Number of classes that come before `label` when logits are ordered, the largest first: those of the same
/// logit and a lower number, and those that are not numbers, do. A label whose logit is not a number is last.
std::int64_t rank_of(std::span<const float> logits, std::int64_t label);

/// Evaluates a model on the pictures of `data`, made by `workers` threads: top-1, the score, top-5 where
/// there are more than five classes, and the loss, a mean of cross entropies. Returns nothing if `stop`
/// returned true. The processes take batches in turns; the result does not depend on their number.
std::optional<Evaluation> evaluate_image_model(const ImageModel& model, const EvaluationPictures& data,
                                               int workers, StopEvaluation stop, Communicator& processes);

}  // namespace moh
