#include "train/trainer/run/trainer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/trainer/run/resume.h"

namespace moh {

Trainer::Trainer(const RunParts& run, const StoredCheckpoint* resume_from)
    : config_(run.config),
      task_(run.task),
      stop_(run.stop),
      processes_(run.processes),
      optimizer_(make_optimizer(task_.model(), config_, processes_, run.sharded.get())),
      train_step_(task_, optimizer_, config_, processes_, run.sharded),
      length_(length_of(config_, task_.steps_per_epoch())),
      evaluations_(config_, length_),
      rates_(rates_of(config_, length_)),
      state_(first_state(config_.seed, task_, resume_from)),
      clock_(state_.elapsed_seconds),
      guard_(config_.guard, train_step_.is_fused(), state_),
      times_(run),
      log_(run, length_, evaluations_, state_, clock_, times_, resume_from ? resume_from->step() : -1),
      evaluator_(run, train_step_, state_),
      saver_(run, optimizer_, train_step_.average()) {
  if (saver_.is_asynchronous()) train_step_.before_update([this] { saver_.finish(); });
  settle_average(resume_from != nullptr);
  if (resume_from) resume(*resume_from);
}

/// An average that began without a warm-up goes on without, whatever --allow-changes lets pass.
void Trainer::settle_average(bool resumed) {
  if (train_step_.average() == nullptr) return;
  if (resumed && config_.ema.warmup && !state_.average_warmup) {
    train_step_.end_average_warmup();
    log_info("resume: the moving average goes on without ema.warmup, as it began");
  }
  state_.average_warmup = train_step_.average()->decay().warmup;
}

void Trainer::resume(const StoredCheckpoint& checkpoint) {
  load_optimizer_state(optimizer_, checkpoint);
  if (train_step_.average() != nullptr) load_average(*train_step_.average(), optimizer_, checkpoint);
  optimizer_.set_steps(state_.optimizer_steps);
  saved_at_ = state_.step;
  if (checkpoint.metric()) evaluator_.resume(*checkpoint.metric());
  log_.resumed();
}

TrainOutcome Trainer::run() {
  begin();
  while (begun_ < length_.steps && stop_reason().empty() && begin_step()) {
    finish_steps(1);  // on a GPU the next step is enqueued before the result of this one is read
    if (!is_awaited(begun_)) continue;
    finish_steps();
    do_what_is_due();
  }
  finish_steps();
  return end();
}

void Trainer::begin() {
  clock_.start();
  begun_ = state_.step;
  task_.seek(state_.samples, train_step_.part());
  for (const std::int64_t step : config_.checkpoint.keep) {
    if (step > length_.steps)
      log_info("checkpoint.keep: the run ends before step " + std::to_string(step) + ", at step " +
               std::to_string(length_.steps));
  }
  if (state_.selections.empty()) log_.selections();  // what the first checkpoint is compared with
  const bool interrupted = state_.evaluation_due, at_start = config_.eval.at_start && state_.step == 0;
  if (interrupted || at_start) evaluate();
  if (interrupted && !state_.evaluation_due) {  // which the checkpoint of this step does not know yet
    saved_at_ = -1;
    save();
  }
}

bool Trainer::begin_step() {
  const std::int64_t step = begun_ + 1;
  const bool captured = train_step_.captured();
  if (times_.is_traced(step)) finish_steps();
  const bool has_begun = times_.measure(step, [&] {
    if (progress_writes_parameters(task_.model())) saver_.finish();  // which reads them
    if (guard_.has_limits()) optimizer_.set_limits(guard_.limits());
    // On a GPU, which the host does not wait for within a step, run() has asked the processes just now.
    const auto stop = [this] { return config_.device == kCpu && stop_requested(); };
    return train_step_.begin_unless(stop, begun_, rates_.at(begun_));
  });
  if (!has_begun) return false;
  if (train_step_.captured() != captured) {
    log_info("the step is captured: replayed as CUDA graphs of " + std::to_string(train_step_.graph_nodes()) +
             " nodes from now on, made ready in " +
             format_fixed(train_step_.graph_instantiation_seconds() * 1e3, 1) + " ms");
  }
  begun_ = step;
  return true;
}

void Trainer::finish_steps(std::size_t left) {
  while (train_step_.under_way() > left) finish_step();
}

void Trainer::finish_step() {
  const StepReport report = train_step_.finish();
  ++state_.step;
  state_.samples += config_.train.batch_size * config_.train.accumulate;
  state_.items += report.statistics.items;
  state_.optimizer_steps = optimizer_.steps();
  times_.finish(state_.step, report, state_.step == length_.steps);
  if (const std::optional<SkippedStep> skipped = guard_.check(report)) log_.skipped(*skipped, report);
  log_.step(report);
}

bool Trainer::is_saved(std::int64_t step) const {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  const std::int64_t every = length_.of(checkpoint.every_epochs, checkpoint.every);
  return (every > 0 && step % every == 0) ||
         std::ranges::find(checkpoint.keep, step) != checkpoint.keep.end();
}

bool Trainer::is_awaited(std::int64_t step) const {
  return config_.device == kCpu || step == length_.steps || is_evaluated(step) || is_saved(step) ||
         times_.is_traced(step);
}

void Trainer::do_what_is_due() {
  const bool saved = is_saved(state_.step), evaluated = is_evaluated(state_.step);
  if (saved || evaluated) train_step_.complete_parameters();
  if (saved) log_.selections();
  if (evaluated) evaluate();
  if (saved && state_.step != length_.steps) save();
}

void Trainer::evaluate() {
  if (evaluator_.has_evaluated(state_.step)) return;
  if (train_step_.average() != nullptr) saver_.finish();  // weights are exchanged
  std::optional<StepEvaluation> report;
  train_step_.lend_memory([&] { report = evaluator_.run([this] { return stop_requested(); }); });
  if (report) log_.evaluated(*report);
}

void Trainer::save() {
  if (std::exchange(saved_at_, state_.step) == state_.step || !saver_.writes()) return;
  saver_.finish();
  state_.elapsed_seconds = clock_.seconds_of_run();
  log_.sync();  // the records up to a checkpoint must be durable before it is
  saver_.start(state_, evaluator_.score_of_step());
}

/// Whether a signal has reached any of the processes, which all ask at the same points.
bool Trainer::stop_requested() {
  if (stop_number_ == 0) stop_number_ = static_cast<int>(processes_.max(stop_.number()));
  return stop_number_ != 0;
}

std::string Trainer::stop_reason() {
  if (stop_requested()) return "stopped by " + std::string(StopSignal::name_of(stop_number_));
  const double limit = config_.train.stop_after_seconds;
  if (limit == 0) return "";
  const bool over = clock_.seconds() >= limit;
  return processes_.max(over ? 1 : 0) > 0 ? "stopped after " + format_significant(limit) + " s" : "";
}

TrainOutcome Trainer::end() {
  train_step_.complete_parameters();
  if (state_.step >= length_.steps) evaluate();
  save();
  saver_.finish();
  if (state_.evaluation_due)
    log_info("step " + std::to_string(state_.step) +
             ": the evaluation was interrupted; --resume starts with it");
  const std::string reason = is_finished() ? "finished" : stop_reason();
  times_.write_trace(state_.step);
  return {is_finished(), reason, log_.finish(reason, evaluator_, train_step_.average())};
}

}  // namespace moh
