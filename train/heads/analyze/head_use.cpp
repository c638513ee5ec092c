#include "train/heads/analyze/head_use.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace moh {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void RunningMoments::add(double value) {
  ++count_;
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
}

void RunningMoments::add(const RunningMoments& other) {
  if (other.count_ == 0) return;
  const auto mine = static_cast<double>(count_), others = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  count_ += other.count_;
  mean_ += distance * others / (mine + others);
  squares_ += other.squares_ + distance * distance * mine * others / (mine + others);
}

double RunningMoments::mean() const {
  return count_ > 0 ? mean_ : kNone;
}

double RunningMoments::standard_deviation() const {
  return count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : kNone;
}

HeadUseCounter::HeadUseCounter(std::int64_t heads, std::int64_t labels)
    : heads_(heads),
      labels_(labels),
      tokens_(static_cast<std::size_t>(labels)),
      gates_(static_cast<std::size_t>(labels * heads)) {}

void HeadUseCounter::add(std::span<const float> gates, std::span<const std::uint8_t> selected,
                         std::span<const std::int32_t> labels) {
  const auto heads = static_cast<std::size_t>(heads_);
  MOH_CHECK(gates.size() == labels.size() * heads && selected.size() == gates.size(),
            "`gates` and `selected` have an element for every token and head");
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const auto label = static_cast<std::size_t>(labels[t]);
    ++tokens_.at(label);
    for (std::size_t h = 0; h < heads; ++h) {
      if (selected[t * heads + h] != 0) gates_[label * heads + h].add(gates[t * heads + h]);
    }
  }
}

void HeadUseCounter::add_of_all(Communicator& processes) {
  if (processes.alone()) return;
  processes.sum(std::span(tokens_));
  const std::int64_t n = std::ssize(gates_);
  const Tensor own = empty({n, 3}, DType::kFloat64), all = empty({processes.size(), n, 3}, DType::kFloat64);
  double* to = own.data<double>();
  for (const RunningMoments& gate : gates_) {
    *to++ = static_cast<double>(gate.count());
    *to++ = gate.count() > 0 ? gate.mean() : 0;
    *to++ = gate.squares();
  }
  processes.all_gather(own, all);
  const double* from = all.data<double>();
  std::ranges::fill(gates_, RunningMoments());
  for (int rank = 0; rank < processes.size(); ++rank) {
    for (RunningMoments& gate : gates_) {
      gate.add(RunningMoments(static_cast<std::int64_t>(from[0]), from[1], from[2]));
      from += 3;
    }
  }
}

HeadUse HeadUseCounter::of_label(std::int64_t label) const {
  return summary(label, label + 1);
}

HeadUse HeadUseCounter::overall() const {
  return summary(0, labels_);
}

HeadUse HeadUseCounter::summary(std::int64_t first_label, std::int64_t end_label) const {
  HeadUse use;
  use.tokens = std::accumulate(tokens_.begin() + first_label, tokens_.begin() + end_label, std::int64_t{0});
  for (std::int64_t h = 0; h < heads_; ++h) {
    RunningMoments gates;
    for (std::int64_t label = first_label; label < end_label; ++label)
      gates.add(gates_[static_cast<std::size_t>(label * heads_ + h)]);
    use.load.push_back(use.tokens > 0 ? static_cast<double>(gates.count()) / static_cast<double>(use.tokens)
                                      : kNone);
    use.gate_mean.push_back(gates.mean());
    use.gate_std.push_back(gates.standard_deviation());
  }
  return use;
}

LoadBalance balance_of(std::span<const double> load) {
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  const auto heads = static_cast<double>(load.size());
  LoadBalance balance;
  balance.unused = std::ranges::count(load, 0.0);
  if (!(sum > 0)) {
    balance.entropy = balance.imbalance = kNone;
    return balance;
  }
  for (const double f : load) {
    if (f > 0) balance.entropy -= f / sum * std::log(f / sum);
  }
  balance.entropy = load.size() > 1 ? balance.entropy / std::log(heads) : 1.0;
  balance.imbalance = std::ranges::max(load) * heads / sum;
  return balance;
}

}  // namespace moh
