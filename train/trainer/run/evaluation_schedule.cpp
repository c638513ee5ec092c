#include "train/trainer/run/evaluation_schedule.h"
#include "train/trainer/config/run_config.h"

#include <algorithm>
#include <numeric>

namespace moh {

EvaluationSchedule::EvaluationSchedule(const RunConfig& run, const RunLength& length)
    : steps_(length.steps), at_start_(run.eval.at_start) {
  const auto add = [this](std::int64_t every, std::int64_t after) {
    if (every > 0 && after < steps_) multiples_.push_back({every, after});
  };
  const EvalConfig& eval = run.eval;
  add(length.of(eval.every_epochs, eval.every), 0);
  if (eval.each_epoch_after > 0) {
    std::int64_t after = 0;
    if (!__builtin_mul_overflow(eval.each_epoch_after, length.steps_per_epoch, &after))
      add(length.steps_per_epoch, after);
  }
  if (run.checkpoint.keep_best && !multiples_.empty())
    add(length.of(run.checkpoint.every_epochs, run.checkpoint.every), 0);
}

bool EvaluationSchedule::contains(std::int64_t step) const {
  if (step == steps_ || step == 0) return step == steps_ || at_start_;
  return std::ranges::any_of(multiples_,
                             [step](const Multiples& m) { return step > m.after && step % m.every == 0; });
}

/// By inclusion and exclusion: steps that several sets have count once.
std::int64_t EvaluationSchedule::count_up_to(std::int64_t step) const {
  std::int64_t count = 0;
  for (unsigned subset = 1; subset < 1U << multiples_.size(); ++subset) {
    std::int64_t every = 1, after = 0, sign = -1;
    bool beyond = false;
    for (std::size_t i = 0; i < multiples_.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      sign = -sign;
      after = std::max(after, multiples_[i].after);
      const std::int64_t factor = multiples_[i].every / std::gcd(every, multiples_[i].every);
      beyond |= __builtin_mul_overflow(every, factor, &every);
    }
    if (!beyond && step > after) count += sign * (step / every - after / every);
  }
  return count;
}

std::int64_t EvaluationSchedule::count_after(std::int64_t step) const {
  if (step >= steps_) return 0;
  const std::int64_t before_last = std::max<std::int64_t>(steps_ - 1, 0);
  std::int64_t count =
      1 + count_up_to(before_last) - count_up_to(std::clamp<std::int64_t>(step, 0, before_last));
  if (step < 0 && at_start_) ++count;
  return count;
}

}  // namespace moh
