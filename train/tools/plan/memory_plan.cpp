#include "train/tools/plan/memory_plan.h"

#include <algorithm>

#include "core/error.h"

namespace moh {

namespace {

MemoryPlan plan_of(const DryStep& step) {
  return {step.memory.stats, step.memory.at_peak, step.evaluation_bytes};
}

/// last + times (last - before).
std::int64_t extended(std::int64_t before, std::int64_t last, std::int64_t times) {
  std::int64_t more = 0, sum = 0;
  if (__builtin_mul_overflow(last - before, times, &more) || __builtin_add_overflow(last, more, &sum)) {
    throw MemoryError(error_message("plan", "train.accumulate", "batches within 63 bits of memory",
                                    std::to_string(times) + " more micro-batches"));
  }
  return sum;
}

/// Every number of two plans extended.
MemoryPlan extended(const MemoryPlan& before, const MemoryPlan& last, std::int64_t times) {
  MemoryPlan plan = last;
  const auto extend = [times](std::int64_t from, std::int64_t& to) { to = extended(from, to, times); };
  for (std::size_t i = 0; i < plan.at_peak.size(); ++i) {
    extend(before.stats.by_purpose[i].peak_bytes, plan.stats.by_purpose[i].peak_bytes);
    extend(before.at_peak[i], plan.at_peak[i]);
  }
  extend(before.stats.total.peak_bytes, plan.stats.total.peak_bytes);
  extend(before.evaluation_bytes, plan.evaluation_bytes);
  return plan;
}

}  // namespace

std::int64_t MemoryPlan::needed_bytes() const {
  return std::max(stats.total.peak_bytes, evaluation_bytes);
}

MemoryPlan plan_memory(const RunConfig& asked, const MakeTask& make_task) {
  constexpr std::int64_t kFew = 3;
  RunConfig config = asked;
  config.train.accumulate = std::min(asked.train.accumulate, kFew);
  const MemoryPlan few = plan_of(dry_step(config, make_task));
  if (asked.train.accumulate <= kFew) return few;
  // From the second micro-batch on each finds what the one before it found, and adds its batch and numbers.
  config.train.accumulate = kFew - 1;
  return extended(plan_of(dry_step(config, make_task)), few, asked.train.accumulate - kFew);
}

}  // namespace moh
