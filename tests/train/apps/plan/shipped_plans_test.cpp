// Every configuration that comes with moh can be planned.

#include <catch2/catch.hpp>
#include <filesystem>

#include "train/apps/plan/training_plan.h"
#include "train/families/families.h"
#include "train/trainer/config/load_run_config.h"

using namespace moh;

TEST_CASE("plan: every shipped configuration plans, and has a rate on an H100") {
  namespace fs = std::filesystem;
  int count = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(MOH_SOURCE_DIR) / "configs")) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename() == "eval") continue;
    INFO(entry.path());
    const RunConfig run = load_run_config(entry.path().string(), {}, families().configs(), ConfigUse::kModel);
    RunConfig one = run;
    one.train.accumulate = 1;
    const DryStep step = dry_step(one, synthetic_tasks(families().of(run)), usual_step(one));
    CHECK(step.flops > 0);
    CHECK(step.checkpoint_bytes > 8 * (step.parameters - step.frozen_parameters));
    CHECK(parse_peak("H100", dtype_of(run.precision), "--peak-tflops", run.tf32).tflops >= 67);
    ++count;
  }
  CHECK(count >= 30);
}
