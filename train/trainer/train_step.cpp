#include "train/trainer/train_step.h"

#include <cmath>

#include "autograd/profile.h"
#include "ops/optim/clip_grad_norm.h"
#include "train/metrics/progress.h"

namespace moh {

namespace {

MicroBatchLoss forward(Task& task, std::int64_t micro_batch, Generator& generator) {
  const ProfilePhaseScope phase(ProfilePhase::kForward);
  return task.loss(micro_batch, generator);
}

void update(AdamW& optimizer, const OptimConfig& config, StepReport& report) {
  const ProfilePhaseScope phase(ProfilePhase::kOptimizer);
  report.gradient_norm = optimizer.gradient_norm();
  // Non-finite numbers must not reach the weights: they would be lost for good.
  report.skipped = !std::isfinite(report.loss) || !std::isfinite(report.gradient_norm);
  if (report.skipped) return;
  const double limit = config.clip_grad_norm;
  optimizer.step(report.learning_rate, limit > 0 ? clip_factor(report.gradient_norm, limit) : 1.0);
}

}  // namespace

StepReport train_step(Task& task, AdamW& optimizer, const RunConfig& config, std::int64_t step,
                      double learning_rate) {
  const double begin = monotonic_seconds();
  StepReport report;
  report.learning_rate = learning_rate;
  optimizer.zero_grad();
  task.begin_step(config.train.accumulate);
  Generator generator(static_cast<std::uint64_t>(config.seed), static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < config.train.accumulate; ++i) {
    const MicroBatchLoss part = forward(task, i, generator);
    part.total.backward();
    report.loss += part.task_loss;
  }
  update(optimizer, config.optim, report);
  report.statistics = task.end_step();
  report.seconds = monotonic_seconds() - begin;
  return report;
}

}  // namespace moh
