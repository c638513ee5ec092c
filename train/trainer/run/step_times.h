#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/trainer/run/metrics_writer.h"
#include "train/trainer/run/run_parts.h"
#include "train/trainer/run/step_trace.h"
#include "train/trainer/run/train_step.h"

namespace moh {

/// Where the time of steps goes: sums from one log line to the next, compared between processes, and the
/// trace of profile.steps. Listens to the collectives of the run's processes as long as it lives.
class StepTimes {
 public:
  explicit StepTimes(const RunParts& run);
  ~StepTimes();
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;

  /// Whether profile.steps has the step. No other one may be under way when it begins.
  bool is_traced(std::int64_t step) const;
  /// Measures `begin`, which begins a step unless it returns false, and returns what that returns.
  bool measure(std::int64_t step, FunctionRef<bool()> begin);
  /// Adds the times of a step that has finished. The last one of a trace writes it.
  void finish(std::int64_t step, const StepReport& report, bool is_last);
  /// Writes a trace that was not, as the run ends after `step`. Throws StorageError.
  void write_trace(std::int64_t step);

  double items_per_second() const { return static_cast<double>(sums_.items) / sums_.seconds; }
  /// Model operations of this process; 0 where they are not known.
  double flops_per_second() const { return sums_.flops / sums_.seconds; }
  /// Adds to a record of the steps since the last one, and begins anew. A collective.
  void take_into(MetricRecord& record, std::string_view items_name);

 private:
  struct Sums {
    double seconds = 0, data_seconds = 0, comm_seconds = 0;  ///< the latter are parts of the first
    double flops = 0;
    std::int64_t steps = 0, items = 0;
  };

  void listen();
  void compare_ranks(MetricRecord& record, const Sums& sums);

  ProfileConfig profile_;
  const RunFolder& folder_;
  Communicator& processes_;
  std::optional<StepTrace> trace_;
  Sums sums_;
  std::atomic<bool> in_step_ = false;
  std::atomic<double> collective_seconds_ = 0;  // within the steps of sums_
};

}  // namespace moh
