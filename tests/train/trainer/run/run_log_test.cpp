#include "train/trainer/run/run_log.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/image_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/apps/plan/dry_step.h"
#include "train/base/io/file_ops.h"
#include "train/families/families.h"

using namespace moh;

namespace {

/// A run of 12 steps with a line every five, whose steps are told, not made.
struct Told {
  explicit Told(std::int64_t first = 0) {
    config.output.dir = path.path();
    config.train.steps = 12;
    config.log.every = 5;
    task = synthetic_tasks(families().of(config))(config);
    folder.open(path.path());
    folder.begin("", false);
    state.step = first;
    const RunParts run = {config, "", *task, folder, nullptr, stop, std::make_shared<Console>(-1)};
    const RunLength length = length_of(config, 0);
    times.emplace(run);
    log.emplace(run, length, EvaluationSchedule(config, length), state, clock, *times,
                first > 0 ? first : -1);
  }

  static StepReport report(std::int64_t items, double flops = 0) {
    StepReport report;
    report.flops = flops;
    report.loss = 2;
    report.seconds = 0.5;
    report.data_seconds = 0.125;
    report.statistics.items = items;
    return report;
  }
  void step(std::int64_t items) {
    ++state.step;
    state.items += items;
    times->finish(state.step, report(items, flops), false);
    log->step(report(items, flops));
  }
  std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> records;
    std::istringstream lines(read_file(path.path() / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
    return records;
  }

  const TemporaryFolder path;
  RunConfig config = small_image_run(ImageArchitecture::kVit);
  std::unique_ptr<Task> task;
  RunFolder folder;
  const StopSignal stop;
  TrainState state;
  RunClock clock{0};
  double flops = 0;  ///< of a step
  std::optional<StepTimes> times;
  std::optional<RunLog> log;
};

}  // namespace

TEST_CASE("run log: the first step, each fifth, and the last have a record") {
  Told run;
  for (int i = 0; i < 12; ++i) run.step(8);
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& record : run.records()) steps.push_back(record.at("step"));
  CHECK(steps == std::vector<std::int64_t>{1, 5, 10, 12});
}

TEST_CASE("run log: a record is of the time since the last one") {
  Told run;
  run.step(1000);
  for (int i = 0; i < 4; ++i) run.step(8);
  const nlohmann::json record = run.records().back();
  CHECK(record.at("step") == 5);
  CHECK(record.at("images") == 1032);
  CHECK(record.at("images_per_s") == 16);
  CHECK(record.at("data_wait") == 0.25);
  CHECK_FALSE(record.contains("comm_wait"));
}

TEST_CASE("run log: the share of peak is of the operations of the steps since the last record") {
  Told run;
  run.flops = 1e6;
  run.step(8);  // of half a second, after which no peak is measured yet
  CHECK_FALSE(run.records().back().contains("mfu"));
  for (int i = 0; i < 4; ++i) run.step(8);
  const double share = run.records().back().at("mfu");
  CHECK(share > 0);
  run.flops = 3e6;
  for (int i = 0; i < 5; ++i) run.step(8);
  CHECK(run.records().back().at("mfu").get<double>() == Approx(3 * share));
}

TEST_CASE("run log: a skipped step is an event, and an error where it ends the run") {
  Told run;
  run.log->skipped({"spike", "step 0: far above", false}, Told::report(8));
  CHECK_THROWS_WITH(run.log->skipped({"non_finite", "step 0: not finite", true}, Told::report(8)),
                    "train: step 0: not finite");
  const std::vector<nlohmann::json> records = run.records();
  REQUIRE(records.size() == 2);
  CHECK(records[0].at("event") == "spike");
  CHECK(records[1].at("event") == "non_finite");
  CHECK(records[1].at("loss") == 2);
}

TEST_CASE("run log: an evaluation without held-out data that shows nothing has no record") {
  Told run;
  run.log->evaluated({});
  CHECK(run.records().empty());
  run.log->evaluated({.evaluation = {}, .picture = "samples/step_00000000.png", .seconds = 1});
  CHECK(run.records().at(0).at("picture") == "samples/step_00000000.png");
}
