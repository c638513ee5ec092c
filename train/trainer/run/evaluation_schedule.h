#pragma once

#include <cstdint>
#include <vector>

namespace moh {

struct RunConfig;
struct RunLength;

/// After which steps a run evaluates: those of eval.every and eval.every_epochs, each epoch after
/// eval.each_epoch_after, checkpoints whose scores checkpoint.keep_best compares if there are evaluations
/// before the last step at all, step 0 with eval.at_start, and the last step.
class EvaluationSchedule {
 public:
  EvaluationSchedule(const RunConfig& run, const RunLength& length);

  bool contains(std::int64_t step) const;
  /// Number of evaluations after the steps above `step`; all for -1. In constant time.
  std::int64_t count_after(std::int64_t step) const;

 private:
  /// The multiples of `every` above `after`.
  struct Multiples {
    std::int64_t every, after;
  };
  std::int64_t count_up_to(std::int64_t step) const;

  std::vector<Multiples> multiples_;
  std::int64_t steps_;
  bool at_start_;
};

}  // namespace moh
