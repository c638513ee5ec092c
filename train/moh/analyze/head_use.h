#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moh {

/// Mean and spread of numbers that come one by one (Welford 1962), so that equal numbers have spread 0.
class RunningMoments {
 public:
  void add(double value);
  void add(const RunningMoments& other);

  std::int64_t count() const { return count_; }
  double mean() const;                ///< NaN of nothing
  double standard_deviation() const;  ///< of the numbers themselves (divided by their count); NaN of nothing

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared distances to the mean
};

/// How tokens use the heads of a layer.
struct HeadUse {
  std::int64_t tokens = 0;
  std::vector<double> load;       ///< by head: share of the tokens that use it
  std::vector<double> gate_mean;  ///< by head, over the tokens that use it; NaN where none does
  std::vector<double> gate_std;   ///< likewise, standard deviation
};

/// Counts, in one layer, who uses which head and with which gate: by label (say, the source of the text, or
/// the class of an image). Memory: labels x heads.
class HeadUseCounter {
 public:
  HeadUseCounter(std::int64_t heads, std::int64_t labels);

  /// N tokens with their gates [N, H], whether they use a head [N, H], and their labels [N].
  void add(std::span<const float> gates, std::span<const std::uint8_t> selected,
           std::span<const std::int32_t> labels);

  HeadUse of_label(std::int64_t label) const;
  HeadUse overall() const;

 private:
  HeadUse summary(std::int64_t first_label, std::int64_t end_label) const;

  std::int64_t heads_, labels_;
  std::vector<std::int64_t> tokens_;   // by label
  std::vector<RunningMoments> gates_;  // [label, head]
};

/// How evenly routed heads are used.
struct LoadBalance {
  double entropy = 0;       ///< of load / sum of loads, as a share of that of equal loads: 1 is even
  double imbalance = 0;     ///< largest load over the mean: 1 is even
  std::int64_t unused = 0;  ///< heads that no token uses
};

/// Of the loads of the routed heads; all NaN when every load is 0. At least one head.
LoadBalance balance_of(std::span<const double> load);

}  // namespace moh
