#include "train/trainer/run/guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "train/base/log/format.h"

namespace moh {

namespace {

enum Fault : std::size_t {
  kSpike,
  kSpikesInRow,
  kNonFinite,
  kNonFiniteInRow,
  kNonFiniteStop,
  kNonFiniteFused,
};

/// How a run goes on after a fault; # is guard.max_skipped.
struct Verdict {
  std::string_view event;
  bool ends_run;
  std::string_view text;
};

constexpr std::array<Verdict, 6> kVerdicts = {{
    {"spike", false, ": far above the steps before (guard.spike); this step's update is skipped"},
    {"spike", true,
     ": expected numbers within the limits of guard.spike after # skipped steps in a row; the weights are as "
     "they were before these, and the last checkpoint is intact. Look at the data there, lower "
     "optim.learning_rate, or raise guard.spike.loss and guard.spike.grad_norm"},
    {"non_finite", false, ": not finite; this step's update is skipped"},
    {"non_finite", true,
     ": expected finite numbers after # skipped steps in a row; the weights are as they were before this "
     "step, "
     "and the last checkpoint is intact. Lower optim.learning_rate or lengthen schedule.warmup_steps"},
    {"non_finite", true,
     ": expected finite numbers; the weights are as they were before this step, and the last checkpoint is "
     "intact. Lower optim.learning_rate, lengthen schedule.warmup_steps, or set guard.non_finite: skip"},
    {"non_finite", true,
     ": expected a finite gradient; with optim.fused_update some weights have been updated already. Nothing "
     "of "
     "this step is saved: lower optim.learning_rate or lengthen schedule.warmup_steps, and continue from the "
     "last checkpoint with --resume"},
}};

/// A window of numbers that hardly differ says nothing about the size of a spike.
constexpr double kLeastDeviation = 0.01;  // of the mean

double limit_of(const std::vector<double>& window, double deviations, std::int64_t length) {
  if (deviations == 0 || std::ssize(window) < length) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(window.size());
  double mean = 0, square = 0;
  for (const double value : window) mean += value / count;
  for (const double value : window) square += (value - mean) * (value - mean) / count;
  return mean + deviations * std::max(std::sqrt(square), kLeastDeviation * std::abs(mean));
}

void append(std::vector<double>& window, double value, std::int64_t length) {
  window.push_back(value);
  const std::int64_t surplus = std::ssize(window) - length;
  if (surplus > 0) window.erase(window.begin(), window.begin() + surplus);
}

std::string with_count(std::string_view text, std::int64_t count) {
  std::string result(text);
  const std::size_t place = result.find('#');
  if (place != std::string::npos) result.replace(place, 1, std::to_string(count));
  return result;
}

}  // namespace

UpdateLimits Guard::limits() const {
  const SpikeConfig& spike = config_.spike;
  return {limit_of(state_.recent_losses, spike.loss, spike.window),
          limit_of(state_.recent_grad_norms, spike.grad_norm, spike.window)};
}

std::optional<SkippedStep> Guard::check(const StepReport& report) {
  if (!report.skipped) {
    state_.skipped_in_row = 0;
    if (!has_limits()) return std::nullopt;
    append(state_.recent_losses, report.loss, config_.spike.window);
    append(state_.recent_grad_norms, report.gradient_norm, config_.spike.window);
    return std::nullopt;
  }
  ++state_.skipped_in_row;
  const Verdict& verdict = kVerdicts[fault_of(report)];
  const std::string numbers = "step " + std::to_string(state_.step) + ": loss " +
                              format_significant(report.loss) + ", gradient norm " +
                              format_significant(report.gradient_norm);
  return SkippedStep{verdict.event, numbers + with_count(verdict.text, config_.max_skipped),
                     verdict.ends_run};
}

std::size_t Guard::fault_of(const StepReport& report) const {
  const bool few = state_.skipped_in_row <= config_.max_skipped;
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) return few ? kSpike : kSpikesInRow;
  const bool skips = config_.non_finite == NonFinitePolicy::kSkip;
  if (skips && few) return kNonFinite;
  if (fused_update_ && std::isfinite(report.loss)) return kNonFiniteFused;
  return skips ? kNonFiniteInRow : kNonFiniteStop;
}

}  // namespace moh
