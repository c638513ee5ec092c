#include "train/trainer/run/start_run.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/image_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/file_ops.h"
#include "train/families/families.h"
#include "train/weights/checkpoint/checkpoint.h"

using namespace moh;

namespace {

RunConfig run_in(const std::filesystem::path& folder) {
  RunConfig config = small_image_run(ImageArchitecture::kVit);
  config.output.dir = folder;
  config.log.every = 1;
  config.checkpoint.every = 2;
  return config;
}

TrainOutcome start(const RunConfig& config, const StartOptions& options) {
  RunFolder folder;
  StopSignal stop;
  return start_run(config, options, {families(), folder, stop, std::make_shared<Console>(-1), one_process()});
}

std::string model_at(const std::filesystem::path& folder, const std::string& step) {
  return read_file(folder / "checkpoints" / step / "model.safetensors");
}

}  // namespace

TEST_CASE("start_run: a run that was cut in two has the weights of one that was not") {
  const TemporaryFolder whole, cut;
  const TrainOutcome outcome = start(run_in(whole.path()), {.config_file = "run.yaml"});
  CHECK(outcome.finished);
  CHECK(outcome.reason == "finished");
  CHECK(outcome.summary.step == 4);
  CHECK(outcome.summary.best_validation_score);

  start(run_in(cut.path()), {.config_file = "run.yaml"});
  std::filesystem::remove_all(cut.path() / "checkpoints/step_00000004");
  const TrainOutcome resumed = start(run_in(cut.path()), {.config_file = "run.yaml", .resume = true});
  CHECK(resumed.finished);
  CHECK(resumed.summary.items < outcome.summary.items);
  CHECK(model_at(cut.path(), "step_00000004") == model_at(whole.path(), "step_00000004"));
}

TEST_CASE("start_run: a run that is there is not touched unless that is said") {
  const TemporaryFolder folder;
  start(run_in(folder.path()), {.config_file = "run.yaml"});
  const std::string before = model_at(folder.path(), "step_00000004");
  RunConfig other = run_in(folder.path());
  other.seed = 7;
  CHECK_THROWS_AS(start(other, {.config_file = "run.yaml"}), ConfigError);
  CHECK_THROWS_AS(start(other, {.config_file = "run.yaml", .resume = true}), ConfigError);
  CHECK(model_at(folder.path(), "step_00000004") == before);
  CHECK(start(other, {.config_file = "run.yaml", .overwrite = true}).finished);
  CHECK(model_at(folder.path(), "step_00000004") != before);
}

TEST_CASE("start_run: data that cannot be read leave the run that is there") {
  const TemporaryFolder folder;
  start(run_in(folder.path()), {.config_file = "run.yaml"});
  RunConfig unreadable = run_in(folder.path());
  images_of(unreadable).data.drawn = 0;
  images_of(unreadable).data.train = {folder.path() / "missing"};
  CHECK_THROWS_AS(start(unreadable, {.config_file = "run.yaml", .overwrite = true}), DataError);
  CHECK_FALSE(list_checkpoints(folder.path() / "checkpoints").empty());
}
