#include "train/trainer/run/saver.h"

#include <catch2/catch.hpp>

#include "tests/support/image_runs.h"
#include "tests/support/same_bits.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_processes.h"
#include "train/apps/plan/dry_step.h"
#include "train/base/io/file_ops.h"
#include "train/families/families.h"
#include "train/trainer/run/resume.h"
#include "train/trainer/run/train_step.h"

using namespace moh;
using namespace moh::test;

namespace {

RunConfig classifier(bool asynchronous) {
  RunConfig config = small_image_run(ImageArchitecture::kVit);
  config.checkpoint.asynchronous = asynchronous;
  config.comm.bucket_mib = 1;
  return config;
}

/// A run of one process, or of one of several, after a step, and its saver.
struct Run {
  Run(const RunConfig& run, const std::filesystem::path& path, const StopSignal& stop,
      Communicator& processes = one_process())
      : config(run),
        task(synthetic_tasks(families().of(config))(config)),
        optimizer(task->model(), config.optim.adamw, processes, config.comm.bucket_bytes()) {
    if (processes.is_rank0()) {
      folder.open(path);
      const RetentionPolicy newest_and_best = {.keep_last = 1, .keep_best = true};
      checkpoints.emplace(path, newest_and_best, [](const std::string& text) { FAIL(text); });
    }
    TrainStep step(*task, optimizer, config, processes);
    task->seek(0, step.part());
    step.begin(0, 0.01);
    step.complete_parameters();
    const RunParts parts = {config, "seed: 1\n", *task,    folder, checkpoints ? &*checkpoints : nullptr,
                            stop,   nullptr,     processes};
    saver.emplace(parts, optimizer, nullptr);
  }

  void save(std::int64_t step, std::optional<double> score = {}) {
    TrainState state;
    state.step = step;
    saver->start(state, score);
    saver->finish();
  }
  std::vector<std::int64_t> saved_steps() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointInfo& info : checkpoints->list()) steps.push_back(info.step);
    return steps;
  }

  RunConfig config;
  std::unique_ptr<Task> task;
  AdamW optimizer;
  RunFolder folder;
  std::optional<CheckpointStore> checkpoints;
  std::optional<Saver> saver;
};

}  // namespace

TEST_CASE("saver: a checkpoint written beside the training has the bytes of one that it waits for") {
  const TemporaryFolder beside, waited_for;
  const StopSignal stop;
  Run(classifier(true), beside.path(), stop).save(1, 0.5);
  Run(classifier(false), waited_for.path(), stop).save(1, 0.5);
  const std::vector<std::filesystem::path> files =
      list_directory(waited_for.path() / "checkpoints/step_00000001");
  CHECK(files.size() >= 5);
  for (const std::filesystem::path& file : files) {
    INFO(file.filename());
    CHECK(read_file(beside.path() / "checkpoints/step_00000001" / file.filename()) == read_file(file));
  }
}

TEST_CASE("saver: shards of processes are loaded as what one process has") {
  const TemporaryFolder shards, whole;
  const StopSignal stop;
  require_success(2, [&](Communicator& processes) {
    RunConfig config = classifier(true);
    config.comm.zero = 1;
    config.train = per_rank_config(config, 2);
    Run run(config, shards.path(), stop, processes);
    CHECK(run.saver->writes());
    run.save(1);
  });
  RunConfig config = classifier(true);
  config.train = per_rank_config(config, 2);  // the micro-batches of both
  Run run(config, whole.path(), stop);
  run.save(1);
  std::vector<Tensor> expected;
  for (const NamedTensor& entry : run.optimizer.state()) expected.push_back(entry.tensor.clone());
  for (const NamedTensor& entry : run.optimizer.state()) entry.tensor.fill(0);
  const StoredCheckpoint saved(shards.path() / "checkpoints/step_00000001");
  CHECK(saved.optimizer().size() == 2);
  load_optimizer_state(run.optimizer, saved);
  std::vector<Tensor> loaded;
  for (const NamedTensor& entry : run.optimizer.state()) loaded.push_back(entry.tensor);
  CHECK(same_bits(loaded, expected));
}

TEST_CASE("saver: of several processes without shards the first one writes") {
  const TemporaryFolder folder;
  const StopSignal stop;
  require_success(2, [&](Communicator& processes) {
    RunConfig config = classifier(true);
    config.train = per_rank_config(config, 2);
    const std::unique_ptr<Task> task = synthetic_tasks(families().of(config))(config);
    const AdamW optimizer(task->model(), config.optim.adamw);
    RunFolder unopened;
    std::optional<CheckpointStore> store;
    if (processes.is_rank0())
      store.emplace(folder.path(), RetentionPolicy{}, [](const std::string& text) { FAIL(text); });
    const RunParts parts = {config, "", *task, unopened, store ? &*store : nullptr, stop, nullptr, processes};
    CHECK(Saver(parts, optimizer, nullptr).writes() == processes.is_rank0());
  });
}

TEST_CASE("saver: a checkpoint without a score does not change which one is the best") {
  const TemporaryFolder folder;
  const StopSignal stop;
  Run run(classifier(true), folder.path(), stop);
  REQUIRE(run.task->score().higher_is_better);
  run.save(1, 0.75);
  run.save(2, 0.25);
  CHECK(run.saved_steps() == std::vector<std::int64_t>{1, 2});
  run.save(3);
  CHECK(run.saved_steps() == std::vector<std::int64_t>{1, 3});
}
