#pragma once

#include <cstdint>
#include <memory>

#include "train/trainer/optim/adamw.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/family.h"
#include "train/trainer/task/load_model.h"

namespace moh::test {

/// The task of a run, with a model of initial weights.
inline std::unique_ptr<Task> new_task(const Family& family, const RunConfig& run,
                                      DataUse use = DataUse::kTraining) {
  return family.make_task(run, family.open_data(run, use), make_initialised_model(family, run));
}

/// A task, its optimiser and step.
struct FamilyTraining {
  FamilyTraining(const Family& family, const RunConfig& config, std::int64_t first_sample)
      : run(config),
        task(new_task(family, run)),
        optimizer(task->model(), run.optim.adamw),
        step(*task, optimizer, run) {
    task->seek(first_sample, {});
  }
  StepReport next(std::int64_t number, double rate = 1e-3) {
    step.begin(number, rate);
    return step.finish();
  }

  RunConfig run;
  std::unique_ptr<Task> task;
  AdamW optimizer;
  TrainStep step;
};

}  // namespace moh::test
