#include "tests/cuda_sim/same_with_graph.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/cuda_sim/training_run.h"

namespace moh::test {

namespace {

struct Steps {
  std::vector<StepReport> reports;
  std::vector<Tensor> state;
};

/// Eight steps, each report read a step late.
Steps eight_steps(const RunConfig& config, const std::function<void(const Model&)>& use,
                  const Family& family) {
  TrainingRun run(config, family);
  Steps result;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t waits = run.begin();
    if (i >= 2) CHECK(waits == 0);
    CHECK(run.captured() == (config.cuda_graph && i >= 2));
    if (i > 0) result.reports.push_back(run.finish());
    if (i == 5) use(run.task().model());
  }
  result.reports.push_back(run.finish());
  result.state = run.state();
  return result;
}

}  // namespace

void check_same_with_graph(RunConfig config, const std::function<void(const Model&)>& use,
                           const Family& family) {
  config.cuda_graph = false;
  const Steps expected = eight_steps(config, use, family);
  config.cuda_graph = true;
  const Steps found = eight_steps(config, use, family);
  CHECK(same_bits(found.state, expected.state));
  for (std::size_t i = 0; i < 8; ++i) {
    INFO("step " << i);
    CHECK(found.reports[i].loss == expected.reports[i].loss);
    CHECK(found.reports[i].gradient_norm == expected.reports[i].gradient_norm);
    CHECK(found.reports[i].statistics.scalars == expected.reports[i].statistics.scalars);
    CHECK(found.reports[i].statistics.rows == expected.reports[i].statistics.rows);
  }
  for (std::size_t i = 1; i < 8; ++i)  // or a replay of old data would not be noticed
    CHECK(found.reports[i].loss != found.reports[i - 1].loss);
}

}  // namespace moh::test
