#include <catch2/catch.hpp>
#include <cmath>

#include "tests/cuda_sim/stream.h"
#include "tests/cuda_sim/training_run.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("sim: a warm training step does not make the host wait") {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    for (const RouterChoice router :
         {RouterChoice::kNone, RouterChoice::kLearned, RouterChoice::kQueryNorm}) {
      RunConfig config = small_run();
      config.precision = precision;
      config.model.moh.router = router;
      if (router == RouterChoice::kNone) config.model.moh.shared.every = config.model.moh.routed.every = 0;
      const sim::Stream::LateScope late;
      TrainingRun run(config);
      run.step();
      run.begin();
      for (int i = 0; i < 3; ++i) {
        INFO(name_of(precision) << ", " << name_of(router) << ", step " << i + 2);
        CHECK(run.begin() == 0);
        // The report of the step before is what the host waits for, once.
        const std::int64_t before = sim::Stream::instance().waits();
        CHECK(std::isfinite(run.finish().loss));
        CHECK(sim::Stream::instance().waits() - before == 1);
      }
    }
  }
  // The count sees what it should.
  const std::int64_t before = sim::Stream::instance().waits();
  full({}, 1.0, DType::kFloat32, small_run().device).item();
  CHECK(sim::Stream::instance().waits() > before);
}

TEST_CASE("sim: a device that is a step behind computes and reports the same") {
  TrainingRun at_once(small_run());
  std::vector<StepReport> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(at_once.step());
  const sim::Stream::LateScope late;
  TrainingRun behind(small_run());
  std::vector<StepReport> found;
  behind.begin();
  for (int i = 1; i < 5; ++i) {
    behind.begin();
    found.push_back(behind.finish());
  }
  found.push_back(behind.finish());
  for (std::size_t i = 0; i < 5; ++i) {
    INFO("step " << i);
    CHECK(found[i].loss == expected[i].loss);
    CHECK(found[i].gradient_norm == expected[i].gradient_norm);
    CHECK(found[i].statistics.balance_loss == expected[i].statistics.balance_loss);
    CHECK(found[i].statistics.head_load == expected[i].statistics.head_load);
    CHECK(found[i].statistics.tokens == 64);
  }
  CHECK(same_bits(behind.state(), at_once.state()));
}

TEST_CASE("sim: a step that is not finite leaves the weights as they are, and the host learns of it later") {
  TrainingRun run(small_run());
  run.step();
  const NamedParameter first = run.task().model().parameters().front();
  const Tensor kept = first.variable.value().clone();
  first.variable.value().fill(INFINITY);
  run.begin();
  first.variable.value().copy_from(kept);
  run.begin();
  CHECK(run.finish().skipped);
  CHECK(run.optimizer().steps() == 1);
  const StepReport next = run.finish();
  CHECK_FALSE(next.skipped);
  CHECK(std::isfinite(next.loss));
  CHECK(run.optimizer().steps() == 2);

  first.variable.value().fill(INFINITY);
  const std::vector<Tensor> state = run.state();
  CHECK(run.step().skipped);
  CHECK(same_bits(run.state(), state));
}
