#include "train/trainer/config/run_rules.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/number_text.h"
#include "train/trainer/config/enum_names.h"

namespace moh::config {

namespace {

/// A cooldown of a schedule that has none would not be noticed.
void check_cooldown(const RunConfig& run, Rules& rules) {
  if (run.schedule.has_cooldown()) return;
  for (const auto& [key, length] :
       {std::pair<const char*, std::int64_t>{"schedule.cooldown_steps", run.schedule.cooldown_steps},
        {"schedule.cooldown_epochs", run.schedule_epochs.cooldown}}) {
    if (length == 0) continue;
    rules.refuse({key, "schedule.kind"}, "0, or a schedule.kind of cosine, linear or sqrt",
                 std::to_string(length));
  }
}

void check_schedule(const LrSchedule& c, Rules& rules) {
  const std::string peak = "at most optim.learning_rate (" + number_text(c.peak) + ")";
  if (c.minimum > c.peak) {
    rules.refuse({"schedule.min_learning_rate", "optim.learning_rate"}, peak, number_text(c.minimum));
  }
  if (c.warmup_start > c.peak) {
    rules.refuse({"schedule.warmup_start", "optim.learning_rate"}, peak, number_text(c.warmup_start));
  }
  if (c.decay_steps != 0 && c.decay_steps <= c.warmup_steps) {
    rules.refuse({"schedule.decay_steps", "schedule.warmup_steps"},
                 "more than schedule.warmup_steps (" + std::to_string(c.warmup_steps) + "), or 0",
                 std::to_string(c.decay_steps));
  }
}

constexpr std::string_view kLengthInSteps =
    "set train.steps; an epoch has tokens / (data.sequence_length x train.batch_size x train.accumulate) "
    "steps, "
    "and 'moh data info' counts the tokens of a token file";

/// Keys that count in epochs, of data that have none.
void refuse_epochs(const RunConfig& run, Rules& rules) {
  for (const auto& [key, epochs] : {std::pair<const char*, std::int64_t>{"train.epochs", run.train.epochs},
                                    {"schedule.warmup_epochs", run.schedule_epochs.warmup},
                                    {"schedule.decay_epochs", run.schedule_epochs.decay},
                                    {"schedule.cooldown_epochs", run.schedule_epochs.cooldown},
                                    {"eval.every_epochs", run.eval.every_epochs},
                                    {"eval.each_epoch_after", run.eval.each_epoch_after},
                                    {"checkpoint.every_epochs", run.checkpoint.every_epochs}}) {
    if (epochs == 0) continue;
    const std::string expected = "0 with task: " + run.task + ", which counts steps";
    const bool is_length = std::string_view(key) == "train.epochs";
    rules.refuse({key}, expected, std::to_string(epochs), is_length ? kLengthInSteps : "");
  }
  if (!run.schedule_epochs.stepwise)
    rules.refuse({"schedule.stepwise"}, "true with task: " + run.task + ", which counts steps", "false");
}

void check_epochs(const RunConfig& run, Rules& rules) {
  if (!run.family->has_epochs()) return refuse_epochs(run, rules);
  const EpochSchedule& c = run.schedule_epochs;
  const std::int64_t end = c.decay > 0 ? c.decay : run.train.epochs;
  if (!c.stepwise && end == 0)
    rules.refuse({"schedule.decay_epochs", "train.epochs"},
                 "the end of the decay, or train.epochs, with schedule.stepwise: false", "0");
  if (end > 0 && c.warmup >= end) {
    rules.refuse({"schedule.warmup_epochs", "schedule.decay_epochs", "train.epochs"},
                 "less than the epochs of the decay (" + std::to_string(end) + ")", std::to_string(c.warmup));
  }
}

void check_profile(const ProfileConfig& profile, Rules& rules) {
  constexpr std::int64_t kMostSteps = 100;
  const std::vector<std::int64_t>& steps = profile.steps;
  if (steps.empty()) return;
  std::string found;
  for (const std::int64_t step : steps) found += (found.empty() ? "[" : ", ") + std::to_string(step);
  if (steps.size() != 2 || steps[0] > steps[1] || steps[1] - steps[0] >= kMostSteps) {
    rules.refuse({"profile.steps"},
                 "[first, last], at most " + std::to_string(kMostSteps) + " steps, or [] for none",
                 found + "]");
  }
}

void check_device(const RunConfig& run, Rules& rules) {
  if (run.cuda_graph && run.device == kCpu) {
    rules.refuse({"cuda_graph", "device"}, "false with device: cpu", "true", "or set device: cuda");
  }
  if (run.tf32 && run.device == kCpu) {
    rules.refuse({"tf32", "device"}, "false with device: cpu, which has no TF32", "true");
  }
  if (run.comm.backend == CommBackend::kNccl && run.device == kCpu)
    rules.refuse({"comm.backend", "device"}, "auto or host with device: cpu", "nccl");
  const bool cudnn = run.attention.backend == AttentionBackend::kCudnn;
  if (cudnn && (run.device == kCpu || run.precision != Precision::kBFloat16)) {
    rules.refuse(
        {"attention.backend", "device", "precision.weights"},
        "cudnn with device: cuda and precision: bfloat16 alone",
        "device: " + device_name(run.device) + ", precision: " + std::string(name_of(run.precision)));
  }
}

void check_gradients(const RunConfig& run, Rules& rules) {
  if (run.optim.adamw.gradients == Precision::kBFloat16 && run.precision != Precision::kBFloat16) {
    rules.refuse({"precision.gradients", "precision.weights"}, "float32 with precision.weights: float32",
                 "bfloat16");
  }
}

/// Refuses what writes whole parameters where each process has a part of them alone.
void check_sharded_parameters(const RunConfig& run, Rules& rules) {
  const MohConfig* const moh = run.family->moh();
  if (run.comm.zero < 3 || moh == nullptr || moh->learn_shared_until == 0) return;
  rules.refuse({"comm.zero", "model.moh.learn_shared_until"},
               "0 to 2 with model.moh.learn_shared_until, which fixes parameters", "3");
}

/// Refuses settings that need the gradients of a whole step before its first update.
void check_fused_update(const RunConfig& run, Rules& rules) {
  if (!run.optim.adamw.fused_update) return;
  const auto refuse = [&](const char* key, const std::string& expected, const std::string& found,
                          const char* why) {
    rules.refuse({key, "optim.fused_update"}, expected + " with optim.fused_update: true, which " + why,
                 found);
  };
  const double clip = run.optim.adamw.clip_grad_norm;
  if (clip > 0)
    refuse("optim.clip_grad_norm", "0", number_text(clip), "updates weights before all gradients are there");
  if (run.guard.non_finite == NonFinitePolicy::kSkip)
    refuse("guard.non_finite", "stop", "skip", "cannot take back weights that are updated");
  for (const auto& [key, limit] : {std::pair<const char*, double>{"guard.spike.loss", run.guard.spike.loss},
                                   {"guard.spike.grad_norm", run.guard.spike.grad_norm}}) {
    if (limit > 0) refuse(key, "0", number_text(limit), "cannot take back weights that are updated");
  }
}

void check_distill(const RunConfig& run, Rules& rules) {
  const DistillConfig& distill = run.init.distill;
  const MohConfig* moh = run.family->moh();
  if (distill.weight == 0) {
    if (distill.temperature != DistillConfig().temperature || distill.teacher != DistillConfig().teacher)
      rules.refuse({"init.distill.weight", "init.distill.temperature", "init.distill.teacher"},
                   "a weight above 0 for the other keys of init.distill", "0");
  } else if (moh == nullptr) {
    rules.refuse({"init.distill.weight"}, "0 with task: " + run.task, number_text(distill.weight));
  } else if (distill.teacher == TeacherKind::kTwin && !moh->router->routes()) {
    rules.refuse({"init.distill.teacher", "init.distill.weight", "model.moh.router"},
                 "source for a dense model, which is its own twin", "twin");
  } else if (distill.teacher == TeacherKind::kTwin && !moh->routing->keeps_heads()) {
    rules.refuse({"init.distill.teacher", "init.distill.weight", "model.moh.routing"},
                 "source with model.moh.routing: " + std::string(moh->routing->name) +
                     ", whose parameters are those of no dense model",
                 "twin");
  } else if (distill.teacher == TeacherKind::kSource && run.init.from.empty()) {
    rules.refuse({"init.from", "init.distill.teacher"}, "the checkpoint of the teacher", "none");
  }
}

void check_init(const RunConfig& run, const FamilyConfig* checkpoint, Rules& rules) {
  const MohConfig* moh = run.family->moh();
  const bool rule_that_measures = moh != nullptr && moh->shared_heads.to_be_measured();
  if (run.init.from.empty()) {
    if (!run.init.part.empty()) {
      rules.refuse({"init.from", "init.part"}, "a checkpoint, which the other keys of init need", "none");
    }
    if (rule_that_measures) {
      rules.refuse({"model.moh.shared_heads", "init.from"}, "first, or lists of heads, without init.from",
                   name_of(moh->shared_heads.rule), "a checkpoint's heads are measured, not random ones");
    }
    return;
  }
  if (checkpoint != nullptr) {
    std::vector<Difference> differing = run.family->disagreements(*checkpoint);
    // Values that the user did not write follow from those that the user wrote: the width of a head from
    // their number.
    const auto is_given = [&](const Difference& d) { return rules.gives(d.key); };
    if (std::ranges::any_of(differing, is_given)) std::erase_if(differing, std::not_fn(is_given));
    for (const Difference& d : differing) {
      const std::string_view fix = d.fix.empty() && is_given(d) ? "remove the key" : std::string_view(d.fix);
      rules.refuse({d.key}, d.expected + " as in the checkpoint of init.from", d.found, fix);
    }
  }
  if (moh == nullptr) return;
  const bool measured_start =
      moh->router->fits_input && run.init.moh.router_start == RouterStart::kCalibrated;
  if (rule_that_measures && !moh->router->routes()) {
    rules.refuse({"model.moh.router", "model.moh.shared_heads"},
                 "learned or query_norm for the heads that model.moh.shared_heads chooses", "none");
  } else if (run.init.moh.calibration.batches == 0 && (measured_start || rule_that_measures)) {
    rules.refuse({"init.moh.calibration.batches"}, "at least 1 for what is measured", "0",
                 "or list model.moh.shared_heads and set init.moh.router_start");
  }
}

}  // namespace

void check(const RunConfig& run, const FamilyConfig* checkpoint, Rules& rules) {
  check_device(run, rules);
  check_profile(run.profile, rules);
  check_gradients(run, rules);
  check_sharded_parameters(run, rules);
  check_fused_update(run, rules);
  check_schedule(run.schedule, rules);
  check_cooldown(run, rules);
  check_epochs(run, rules);
  check_init(run, checkpoint, rules);
  check_distill(run, rules);
  run.family->check(run, rules);
}

}  // namespace moh::config
