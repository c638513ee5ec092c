#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "core/tensor.h"
#include "train/comm/communicator.h"

namespace moh {

/// Logits [N, classes] in float32 of rows with these labels, counted by class. Rows whose label is
/// kIgnoredTarget do not count. Takes memory for the pairs of label and predicted class that occur, at most
/// one for each row, however many classes there are.
class ClassCounts {
 public:
  /// The classes with the largest logits that top-5 counts.
  static constexpr std::int64_t kFew = 5;
  /// (label, predicted) and the number of pictures, in order.
  using Confusion = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

  explicit ClassCounts(std::int64_t classes) : classes_(classes) {}
  /// Throws ValueError for a label that is not one of the classes.
  void add(const Tensor& logits, const Tensor& labels);
  /// Adds what the other processes have counted.
  void add_of_all(Communicator& processes);

  std::int64_t classes() const { return classes_; }
  /// Pictures that were counted.
  std::int64_t total() const { return total_; }
  const Confusion& confusion() const { return confusion_; }
  /// Pictures of class `label` that were taken for class `predicted`.
  std::int64_t confused(std::int64_t label, std::int64_t predicted) const;
  /// The class for which most pictures of `label` were taken by mistake; -1: none.
  std::int64_t most_confused(std::int64_t label) const;
  std::int64_t of_class(std::int64_t label) const;
  /// Pictures of class `label` that has one of the five largest logits.
  std::int64_t among_five(std::int64_t label) const;
  /// Share of pictures whose class has one of the k largest logits, for k = 1 and k = 5.
  double top1() const;
  double top5() const;

 private:
  void count(std::int64_t label, std::int64_t predicted, std::int64_t pictures);

  std::int64_t classes_, total_ = 0, first_ = 0;
  Confusion confusion_;
  std::map<std::int64_t, std::int64_t> among_five_;  ///< by label
};

/// Number of classes that come before `label`, one of them, when logits are ordered, the largest first: those
/// of the same logit and a lower number, and those that are not numbers, do. A label whose logit is not a
/// number is last.
std::int64_t rank_of(std::span<const float> logits, std::int64_t label);

}  // namespace moh
