#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/comm/communicator.h"

namespace moh {

/// Running mean and standard deviation by Welford's algorithm (1962); the deviation of equal numbers is
/// exactly 0.
class RunningMoments {
 public:
  RunningMoments() = default;
  /// Moments of `count` values with this mean and sum of squared deviations from it.
  RunningMoments(std::int64_t count, double mean, double squares)
      : count_(count), mean_(mean), squares_(squares) {}

  void add(double value);
  void add(const RunningMoments& other);

  std::int64_t count() const { return count_; }
  /// Sum of squared deviations from the mean.
  double squares() const { return squares_; }
  double mean() const;  ///< NaN if count() is 0
  double standard_deviation()
      const;  ///< population (divided by the count, not count - 1); NaN if count() is 0

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared deviations from the mean
};

/// How often tokens select the heads of a layer, and with which gates.
struct HeadUse {
  std::int64_t tokens = 0;
  std::vector<double> load;       ///< by head: share of the tokens that select it
  std::vector<double> gate_mean;  ///< by head, over the tokens that select it; NaN where none does
  std::vector<double> gate_std;   ///< likewise, standard deviation
};

/// Accumulates HeadUse of one layer by label (the source of the text, the class of the image). Memory:
/// labels x heads.
class HeadUseCounter {
 public:
  HeadUseCounter(std::int64_t heads, std::int64_t labels);

  /// Adds N tokens: gates [N, H], whether each head is selected [N, H], and labels [N].
  void add(std::span<const float> gates, std::span<const std::uint8_t> selected,
           std::span<const std::int32_t> labels);

  /// Adds what the other processes have counted, in the order of the ranks. A collective.
  void add_of_all(Communicator& processes);

  HeadUse of_label(std::int64_t label) const;
  HeadUse overall() const;

 private:
  HeadUse summary(std::int64_t first_label, std::int64_t end_label) const;

  std::int64_t heads_, labels_;
  std::vector<std::int64_t> tokens_;   // by label
  std::vector<RunningMoments> gates_;  // [label, head]
};

/// How evenly tokens are distributed over the routed heads.
struct LoadBalance {
  double entropy = 0;       ///< of load / sum of loads, divided by that of equal loads: 1 is perfect balance
  double imbalance = 0;     ///< largest load / mean load: 1 is perfect balance
  std::int64_t unused = 0;  ///< heads that no token selects
};

/// The balance of the loads of routed heads, at least one. Entropy and imbalance are NaN if all loads are 0.
LoadBalance balance_of(std::span<const double> load);

}  // namespace moh
