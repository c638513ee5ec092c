#include "train/trainer/run/evaluation_schedule.h"
#include "train/trainer/config/run_config.h"

#include <catch2/catch.hpp>

namespace moh {

namespace {

RunConfig run_with(std::int64_t every, std::int64_t saved_every, bool keep_best) {
  RunConfig run;
  run.eval.every = every;
  run.checkpoint.every = saved_every;
  run.checkpoint.keep_best = keep_best;
  return run;
}

/// count_after() one by one.
std::int64_t counted_evaluations(const EvaluationSchedule& schedule, std::int64_t step, std::int64_t steps) {
  std::int64_t count = 0;
  for (std::int64_t s = step + 1; s <= steps; ++s) count += schedule.contains(s) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("trainer: evaluations are counted as they come, whatever coincides") {
  constexpr std::int64_t kSteps = 61;
  for (const std::int64_t every : {0, 1, 4, 6, 61, 100}) {
    for (const std::int64_t saved : {0, 3, 6, 10}) {
      for (const bool keep_best : {false, true}) {
        for (const std::int64_t last_epochs : {0, 2, 5}) {
          RunConfig run = run_with(every, saved, keep_best);
          run.eval.each_epoch_after = last_epochs;
          run.eval.at_start = every == 4;
          const EvaluationSchedule schedule(run, {.steps = kSteps, .steps_per_epoch = 9});
          INFO("every " << every << ", saved " << saved << ", best " << keep_best << ", epochs "
                        << last_epochs);
          for (std::int64_t step = -1; step <= kSteps + 1; ++step)
            CHECK(schedule.count_after(step) == counted_evaluations(schedule, step, kSteps));
        }
      }
    }
  }
}

TEST_CASE("trainer: keep_best adds no evaluation to a run that evaluates at its end only") {
  const RunLength length{.steps = 100};
  CHECK(EvaluationSchedule(run_with(0, 10, true), length).count_after(-1) == 1);
  CHECK(EvaluationSchedule(run_with(50, 10, true), length).count_after(-1) == 10);
  CHECK(EvaluationSchedule(run_with(50, 10, false), length).count_after(-1) == 2);
  RunConfig by_epochs = run_with(0, 10, true);
  by_epochs.eval.every_epochs = 2;
  CHECK(EvaluationSchedule(by_epochs, {.steps = 100, .steps_per_epoch = 25}).count_after(-1) == 10);
}

TEST_CASE("trainer: evaluations of the longest runs are counted at once") {
  RunConfig run = run_with(999'999'999'999, 999'999'999'998, true);
  run.eval.each_epoch_after = 1;
  const EvaluationSchedule schedule(run, {.steps = 1'000'000'000'000, .steps_per_epoch = 1'000'003});
  CHECK(schedule.count_after(-1) > 999'000);
}

}  // namespace moh
