#include "train/trainer/run/guard.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace moh;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StepReport report_of(double loss) {
  return {.loss = loss, .gradient_norm = 1, .learning_rate = 0.1, .skipped = false, .statistics = {}};
}

StepReport skipped(double loss, double gradient_norm = 1) {
  StepReport report = report_of(loss);
  report.gradient_norm = gradient_norm;
  report.skipped = true;
  return report;
}

}  // namespace

TEST_CASE("guard: a number that is not finite ends the run") {
  TrainState state{.step = 3};
  Guard guard({}, false, state);
  CHECK_FALSE(guard.check(report_of(2)));
  const std::optional<SkippedStep> found = guard.check(skipped(-kNan));
  REQUIRE(found);
  CHECK(found->event == "non_finite");
  CHECK(found->ends_run);
  CHECK(
      found->message ==
      "step 3: loss nan, gradient norm 1: expected finite numbers; the weights are as they were before this "
      "step, and the last checkpoint is intact. Lower optim.learning_rate, lengthen schedule.warmup_steps, "
      "or "
      "set guard.non_finite: skip");
}

TEST_CASE("guard: so many steps in a row are skipped") {
  TrainState state;
  Guard guard({.non_finite = NonFinitePolicy::kSkip, .max_skipped = 2}, false, state);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(guard.check(skipped(kNan))->ends_run);
  CHECK_FALSE(guard.check(report_of(2)));  // which begins a new row
  for (int i = 0; i < 2; ++i) CHECK_FALSE(guard.check(skipped(1, kNan))->ends_run);
  const std::optional<SkippedStep> last = guard.check(skipped(kNan));
  CHECK(last->ends_run);
  CHECK(last->message.find("finite numbers after 2 skipped steps in a row; the") != std::string::npos);
}

TEST_CASE("guard: a gradient that is found within a fused update has changed weights") {
  TrainState state;
  Guard guard({}, true, state);
  CHECK(guard.check(skipped(1, kNan))->message.find("some weights have been updated already") !=
        std::string::npos);
  CHECK(guard.check(skipped(kNan))->message.find("as they were before this step") != std::string::npos);
}

TEST_CASE("guard: limits are of the last steps that were made") {
  TrainState state;
  Guard guard({.max_skipped = 1, .spike = {.loss = 3, .grad_norm = 0, .window = 4}}, false, state);
  REQUIRE(guard.has_limits());
  for (const double loss : {9.0, 1.0, 3.0, 1.0}) guard.check(report_of(loss));
  CHECK(guard.limits().loss > 9);
  guard.check(report_of(3));
  CHECK(guard.limits() == UpdateLimits{.loss = 2 + 3 * 1});
  const std::optional<SkippedStep> spike = guard.check(skipped(50));
  CHECK(spike->event == "spike");
  CHECK_FALSE(spike->ends_run);
  CHECK(guard.limits().loss == 5);
  CHECK(guard.check(skipped(50))->ends_run);
}

TEST_CASE("guard: a run that resumes has the limits of one that was not stopped") {
  const GuardConfig config{.spike = {.loss = 2, .grad_norm = 2, .window = 2}};
  TrainState state;
  Guard before(config, false, state);
  for (const double loss : {1.0, 2.0}) before.check(report_of(loss));
  TrainState resumed = state;
  CHECK(Guard(config, false, resumed).limits() == before.limits());
}
