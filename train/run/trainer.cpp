#include "train/run/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/allocator.h"
#include "core/error.h"
#include "core/process_memory.h"
#include "train/config/load_run_config.h"
#include "train/io/durable_file.h"
#include "train/io/error_words.h"
#include "train/io/file_ops.h"
#include "train/log/logging.h"
#include "train/run/resume.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

bool due(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";  // printf would show the meaningless sign of a NaN
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Wall-clock time since 1970-01-01 UTC, to the millisecond.
double unix_seconds() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<milliseconds>(now).count()) / 1000;
}

/// "activated heads" for activated_heads.
std::string in_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

bool learns_shared_heads(const Model& model) {
  return std::ranges::any_of(model.routing(),
                             [](const HeadRoutingOptions& layer) { return layer.learn_shared_until > 0; });
}

}  // namespace

Trainer::Trainer(const RunConfig& config, Task& task, const RunFolder& folder, CheckpointStore* checkpoints,
                 const StopSignal& stop, std::shared_ptr<Console> console,
                 const StoredCheckpoint* resume_from, Communicator& processes)
    : config_(config),
      task_(task),
      folder_(folder),
      checkpoints_(checkpoints),
      stop_(stop),
      processes_(processes),
      console_(std::move(console)),
      optimizer_(task.model(), config.optim.adamw, config.comm.zero > 0 ? processes : one_process(),
                 config.comm.bucket_bytes()),
      divided_(divided_config(config, processes.size())),
      train_step_(task, optimizer_, divided_, processes),
      length_(length_of(config, task.steps_per_epoch())),
      evaluations_(config, length_),
      rates_(rates_of(config, length_)),
      state_(first_state(config.seed, task, resume_from)),
      spike_(config.guard.spike, state_),
      progress_(console_, length_.steps, resume_from ? resume_from->step() : 0),
      routers_(task) {
  if (processes.leads()) {
    metrics_.emplace(config.output.dir / "metrics.jsonl", resume_from ? resume_from->step() : -1,
                     state_.evaluation_due);
    if (config_.log.tensorboard) metrics_->show_in_tensorboard(config_.output.dir / TensorBoardFile::kName);
  }
  const bool divided = optimizer_.shards() != nullptr;
  if (divided) divided_saving_ = std::make_unique<DividedSave>(processes, checkpoints);
  if (saves_beside_steps()) {
    if (checkpoints != nullptr && !divided)
      saving_ = std::make_unique<BackgroundSave>(*checkpoints, warn_of_waiting_save);
    train_step_.before_update([this] { wait_for_checkpoint(); });
  }
  if (!config_.profile.steps.empty()) {
    const std::string name =
        processes.leads() ? "trace.json" : "trace.rank" + std::to_string(processes.rank()) + ".json";
    const bool on_gpus = config_.device != kCpu && !processes.alone();
    trace_.emplace(config_.output.dir / name, config_.device, processes.rank(),
                   on_gpus ? &processes.on_device() : nullptr);
  }
  processes_.set_listener([this](const Collective& collective) {
    if (!in_step_) return;
    collective_seconds_ += collective.end - collective.begin;
    if (trace_) trace_->add_collective(collective);
  });
  if (trace_) {
    processes_.set_wait_listener(
        [this](double begin, double end) { trace_->add_wait_for_processes(begin, end); });
  }
  settle_average(resume_from != nullptr);
  if (resume_from) resume(*resume_from);
}

/// An average that began without a warm-up goes on without, as of a checkpoint of an earlier version.
void Trainer::settle_average(bool resumed) {
  if (train_step_.average() == nullptr) return;
  if (resumed && config_.ema.warmup && !state_.average_warmup) {
    train_step_.end_average_warmup();
    log_info("resume: the moving average goes on without ema.warmup, as it began");
  }
  state_.average_warmup = train_step_.average()->decay().warmup;
}

Trainer::~Trainer() {
  try {
    if (saving_) wait_for_checkpoint();    // a divided save is finished by all processes, or dropped
  } catch (const std::exception& error) {  // after another one, which ends the run
    log_error(error_words(error));
  }
  processes_.set_listener({});
  processes_.set_wait_listener({});
}

void Trainer::resume(const StoredCheckpoint& checkpoint) {
  load_optimizer_state(optimizer_, checkpoint);
  if (train_step_.average() != nullptr) load_average(*train_step_.average(), optimizer_, checkpoint);
  optimizer_.set_steps(state_.optimizer_steps);
  saved_at_ = state_.step;
  if (checkpoint.metric()) {  // this step has been evaluated
    evaluated_at_ = state_.step;
    validation_score_ = checkpoint.metric();
  }
  elapsed_before_ = state_.elapsed_seconds;
  write(MetricRecord("event", state_.step).add("event", "resume"));
}

TrainOutcome Trainer::run() {
  started_ = monotonic_seconds();
  items_before_ = state_.items;
  begun_ = logged_at_ = state_.step;
  task_.seek(state_.samples, train_step_.part());
  // A forward pass takes a third of a pass forward and backward. An evaluation of a step follows its log
  // line.
  const auto step_samples = static_cast<double>(config_.train.batch_size * config_.train.accumulate);
  progress_.expect_evaluations([this](std::int64_t step) { return evaluations_.count_after(step - 1); },
                               task_.evaluation_samples() / (3 * step_samples));
  for (const std::int64_t step : config_.checkpoint.keep) {
    if (step > length_.steps)
      log_info("checkpoint.keep: the run ends before step " + std::to_string(step) + ", at step " +
               std::to_string(length_.steps));
  }
  if (state_.selections.empty()) watch_routers();  // what the first checkpoint is compared with
  if (state_.evaluation_due) {
    evaluate_resumed();
  } else if (config_.eval.at_start && state_.step == 0) {
    evaluate();
  }
  while (begun_ < length_.steps && stop_reason().empty() && begin_step()) {
    // On a GPU the next step is enqueued before the result of this one is read.
    while (train_step_.under_way() > 1) finish_step();
    if (!needs_sync(begun_)) continue;
    finish_step();
    after_sync();
  }
  while (train_step_.under_way() > 0) finish_step();
  optimizer_.finish_gathering();  // before one process reads parameters alone
  if (state_.step >= length_.steps) evaluate();
  save_checkpoint();
  wait_for_checkpoint();
  if (state_.evaluation_due)
    log_info("step " + std::to_string(state_.step) +
             ": the evaluation was interrupted; --resume starts with it");
  return finish(is_finished() ? "finished" : stop_reason());
}

bool Trainer::is_finished() const {
  return state_.step >= length_.steps && !state_.evaluation_due;
}

bool Trainer::is_saved(std::int64_t step) const {
  const std::vector<std::int64_t>& keep = config_.checkpoint.keep;
  return due(step, length_.of(config_.checkpoint.every_epochs, config_.checkpoint.every)) ||
         std::ranges::find(keep, step) != keep.end();
}

bool Trainer::needs_sync(std::int64_t step) const {
  return config_.device == kCpu || is_last(step) || is_evaluated(step) || is_saved(step) || is_traced(step);
}

bool Trainer::begin_step() {
  const bool captured = train_step_.captured();
  if (is_traced(begun_ + 1)) {
    while (train_step_.under_way() > 0) finish_step();
    trace_->begin_step(begun_ + 1);
  }
  if (learns_shared_heads(task_.model())) wait_for_checkpoint();  // set_progress() fixes them in a parameter
  if (spike_.is_on()) optimizer_.set_limits(spike_.limits());
  in_step_ = true;
  const bool complete =
      train_step_.begin_unless([this] { return stop_requested(); }, begun_, rates_.at(begun_));
  in_step_ = false;
  if (!complete) {
    if (trace_ && trace_->in_step()) trace_->end_step();
    return false;
  }
  if (train_step_.captured() != captured)
    log_info("the step is captured: replayed as a CUDA graph from now on");
  ++begun_;
  return true;
}

void Trainer::finish_step() {
  const StepReport report = train_step_.finish();
  ++state_.step;
  if (trace_ && trace_->in_step()) end_traced_step();
  state_.samples += config_.train.batch_size * config_.train.accumulate;
  state_.items += report.statistics.items;
  state_.optimizer_steps = optimizer_.steps();
  step_seconds_ += report.seconds;
  data_seconds_ += report.data_seconds;
  comm_seconds_ += report.comm_seconds;
  step_items_ += report.statistics.items;
  guard(report);
  last_ = report;
  progress_.update(progress_of(report));
  if (state_.step == 1 || is_last(state_.step) || due(state_.step, config_.log.every)) log(report);
}

bool Trainer::is_traced(std::int64_t step) const {
  const std::vector<std::int64_t>& steps = config_.profile.steps;
  return !steps.empty() && step >= steps[0] && step <= steps[1];
}

void Trainer::end_traced_step() {
  trace_->end_step();
  if (!is_traced(state_.step + 1) || is_last(state_.step)) write_trace();
}

void Trainer::write_trace() {
  if (metrics_) folder_.require_in_place();
  trace_->write();
  log_info("profile: the trace of steps " + std::to_string(config_.profile.steps[0]) + " to " +
           std::to_string(state_.step) + " is written");
}

StepProgress Trainer::progress_of(const StepReport& report) const {
  StepProgress progress{state_.step, report.loss, report.learning_rate,
                        static_cast<double>(step_items_) / step_seconds_, task_.unit().per_second};
  for (const NamedScalar& scalar : report.statistics.scalars) {
    if (!scalar.label.empty()) progress.shares.emplace_back(scalar.label, scalar.value);
  }
  return progress;
}

void Trainer::guard_spike(const std::string& what) {
  if (state_.skipped_in_row <= config_.guard.max_skipped)
    return log_warning(what + ": far above the steps before (guard.spike); this step's update is skipped");
  if (metrics_) metrics_->sync();
  throw NumericError("train: " + what + ": expected numbers within the limits of guard.spike after " +
                     std::to_string(config_.guard.max_skipped) +
                     " skipped steps in a row; the weights are as they were before these, and the last "
                     "checkpoint is intact. Look at the data there, lower optim.learning_rate, or raise "
                     "guard.spike.loss and guard.spike.grad_norm");
}

void Trainer::guard(const StepReport& report) {
  if (!report.skipped) {
    state_.skipped_in_row = 0;
    return spike_.add(report.loss, report.gradient_norm);
  }
  ++state_.skipped_in_row;
  const std::string what = "step " + std::to_string(state_.step) + ": loss " + text_of(report.loss) +
                           ", gradient norm " + text_of(report.gradient_norm);
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  write(MetricRecord("event", state_.step)
            .add("event", finite ? "spike" : "non_finite")
            .add("loss", report.loss)
            .add("grad_norm", report.gradient_norm));
  if (finite) return guard_spike(what);
  const bool skips = config_.guard.non_finite == NonFinitePolicy::kSkip;
  if (skips && state_.skipped_in_row <= config_.guard.max_skipped) {
    return log_warning(what + ": not finite; this step's update is skipped");
  }
  if (metrics_) metrics_->sync();
  if (optimizer_.is_fused() && std::isfinite(report.loss)) {
    throw NumericError("train: " + what +
                       ": expected a finite gradient; with optim.fused_update some weights have been updated "
                       "already. Nothing of this step is saved: lower optim.learning_rate or lengthen "
                       "schedule.warmup_steps, and continue from the last checkpoint with --resume");
  }
  const std::string already =
      skips ? " after " + std::to_string(config_.guard.max_skipped) + " skipped steps in a row" : "";
  throw NumericError(
      "train: " + what + ": expected finite numbers" + already +
      "; the weights are as they were before this step, and the last checkpoint is intact. Lower "
      "optim.learning_rate" +
      (skips ? " or lengthen schedule.warmup_steps"
             : ", lengthen schedule.warmup_steps, or set guard.non_finite: skip"));
}

void Trainer::after_sync() {
  if (is_saved(state_.step) || is_evaluated(state_.step)) optimizer_.finish_gathering();
  if (is_saved(state_.step)) watch_routers();
  if (is_evaluated(state_.step)) evaluate();
  if (!is_last(state_.step) && is_saved(state_.step)) save_checkpoint();
}

void Trainer::log(const StepReport& report) {
  const StepProgress progress = progress_of(report);
  const double own_seconds = step_seconds_ - comm_seconds_, waited = comm_seconds_;
  const double data_wait = data_seconds_ / step_seconds_, comm_wait = comm_seconds_ / step_seconds_;
  step_items_ = 0;
  step_seconds_ = data_seconds_ = comm_seconds_ = 0;
  const StepStatistics& statistics = report.statistics;
  MetricRecord record("train", state_.step);
  record.add("loss", report.loss)
      .add("learning_rate", report.learning_rate)
      .add("grad_norm", report.gradient_norm);
  for (const NamedScalar& scalar : statistics.scalars) record.add(scalar.name, scalar.value);
  for (const auto& [name, lists] : statistics.rows) record.add(name, lists);
  for (const auto& [name, numbers] : statistics.layers) record.add(name, numbers);
  if (task_.steps_per_epoch() > 0)
    record.add("epoch", static_cast<double>(state_.step) / static_cast<double>(task_.steps_per_epoch()));
  const std::string items(task_.unit().plural);
  record.add(items, state_.items).add(items + "_per_s", progress.items_per_s).add("data_wait", data_wait);
  if (!processes_.alone()) {
    record.add("processes", processes_.size()).add("comm_wait", comm_wait);
    add_comm_numbers(record, own_seconds, waited);
  }
  record.add("elapsed_s", elapsed_before_ + monotonic_seconds() - started_)
      .add("peak_memory_bytes", memory_stats(config_.device).total.peak_bytes)
      .add("peak_process_memory_bytes", peak_process_memory());
  write(record);
  progress_.log(progress);
  warn_of_collapse(report);
}

/// `own_seconds` of the steps since the last record, without `waited`, for other processes.
void Trainer::add_comm_numbers(MetricRecord& record, double own_seconds, double waited) {
  const double collectives = collective_seconds_.exchange(0);
  record.add("comm_exposed", collectives > 0 ? std::min(1.0, waited / collectives) : 0.0);
  const Tensor seconds = empty({processes_.size()}, DType::kFloat64);
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, state_.step - logged_at_));
  processes_.all_gather(tensor_of<double>({}, {own_seconds / steps}), seconds);
  const auto of_ranks = seconds.span<double>();
  const auto [least, most] = std::ranges::minmax_element(of_ranks);
  record.add("rank_step_s_min", *least).add("rank_step_s_max", *most);
  record.add("slowest_rank", most - of_ranks.begin());
  logged_at_ = state_.step;
}

void Trainer::warn_of_collapse(const StepReport& report) {
  const std::vector<std::int64_t> layers = routers_.newly_collapsed(report.statistics);
  if (layers.empty()) return;
  std::string list;
  for (const std::int64_t layer : layers) list += (list.empty() ? "" : ", ") + std::to_string(layer);
  write(MetricRecord("event", state_.step).add("event", "router_collapse").add("layers", list));
  log_warning("step " + std::to_string(state_.step) + ": the routers of layers " + list +
              " have collapsed: half or more of the heads that could be spared get almost no token. Raise "
              "model.moh.balance_weight, or lower optim.learning_rate");
}

/// Writes by how much the selection of heads has changed since the last checkpoint that was due.
void Trainer::watch_routers() {
  if (!metrics_ || !routers_.has_routers()) return;
  const std::vector<std::optional<double>> churn = routers_.churn(state_.selections);
  const auto has = [](const std::optional<double>& share) { return share.has_value(); };
  if (std::ranges::any_of(churn, has)) write(MetricRecord("router", state_.step).add("churn", churn));
}

void Trainer::write(MetricRecord record) {
  if (!metrics_) return;
  folder_.require_in_place();
  metrics_->write(record.add("unix_time", unix_seconds()));
}

void Trainer::evaluate() {
  if (evaluated_at_ == state_.step) return;
  const double begin = monotonic_seconds();
  state_.evaluation_due = false;
  StatusLine line(*console_);
  const std::string doing = "step " + std::to_string(state_.step) + ": evaluation";
  if (train_step_.average() != nullptr) wait_for_checkpoint();  // weights are exchanged
  const std::unique_ptr<WeightsScope> weights = train_step_.evaluated_weights();
  const auto asked = [&](const EvaluationProgress& progress) {
    line.update([&] {
      return describe_progress(doing, progress.done, progress.total, task_.unit().plural, line.elapsed());
    });
    return state_.evaluation_due = stop_requested();
  };
  const std::optional<Evaluation> evaluation = task_.evaluate(asked, processes_);
  const double seconds = monotonic_seconds() - begin;
  const std::string picture = state_.evaluation_due ? "" : draw_samples(line);
  line.finish();
  if (state_.evaluation_due) return;
  evaluated_at_ = state_.step;
  progress_.add_evaluation(monotonic_seconds() - begin);
  if (evaluation || !picture.empty()) report(evaluation, seconds, picture);
}

/// Writes a picture of what the model makes, and returns its path in the run folder; empty: none.
std::string Trainer::draw_samples(StatusLine& line) {
  const std::string doing = "step " + std::to_string(state_.step) + ": samples";
  const std::optional<std::string> png = task_.draw_samples(
      [&](const EvaluationProgress& progress) {
        line.update(
            [&] { return describe_progress(doing, progress.done, progress.total, "steps", line.elapsed()); });
        return state_.evaluation_due = stop_requested();
      },
      processes_);
  if (!png || png->empty() || !processes_.leads()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld.png", static_cast<long long>(state_.step));
  folder_.require_in_place();
  write_file_durably(folder_.make_samples_folder() / name, *png);
  return std::string("samples/") + name;
}

/// Repeats the evaluation that a signal interrupted, if the checkpoint says that there is one.
void Trainer::evaluate_resumed() {
  evaluate();
  if (state_.evaluation_due) return;
  saved_at_ = -1;
  save_checkpoint();
}

void Trainer::report(const std::optional<Evaluation>& evaluation, double seconds,
                     const std::string& picture) {
  MetricRecord record("eval", state_.step);
  std::string line = "step " + std::to_string(state_.step) + ":";
  if (evaluation) line += " validation " + add_scores(*evaluation, record);
  if (!picture.empty()) {
    record.add("picture", picture);
    line += (evaluation ? "; " : " ") + picture;
  }
  write(record.add("elapsed_s", seconds));
  log_info(line);
}

/// Adds the scores of an evaluation to a record, and returns them as text.
std::string Trainer::add_scores(const Evaluation& evaluation, MetricRecord& record) {
  const Score score = task_.score();
  validation_score_ = evaluation.score;
  if (std::isfinite(evaluation.score)) {
    const double best = state_.best_score.value_or(evaluation.score);
    state_.best_score =
        score.higher_is_better ? std::max(best, evaluation.score) : std::min(best, evaluation.score);
  }
  record.add(score.name, evaluation.score);
  std::string text = std::string(score.name) + " " + text_of(evaluation.score);
  for (const auto& [name, value] : evaluation.metrics) {
    record.add(name, value);
    text += ", " + name + " " + text_of(value);
  }
  if (evaluation.held_out == 0) return text;
  record.add("evaluated", evaluation.evaluated).add("held_out", evaluation.held_out);
  return text + " (" + std::to_string(evaluation.evaluated) + " of " + std::to_string(evaluation.held_out) +
         " " + std::string(task_.unit().plural) + ")";
}

/// Where the optimiser's state is divided, a save is a collective of all processes.
void Trainer::save_checkpoint() {
  if (std::exchange(saved_at_, state_.step) == state_.step) return;
  if (!processes_.leads() && !divided_saving_) return;
  wait_for_checkpoint();  // one at a time
  CheckpointContents contents;
  if (train_step_.average() != nullptr) contents.average = train_step_.average()->state();
  saving_step_ = state_.step;
  if (processes_.leads()) {
    state_.elapsed_seconds = elapsed_before_ + monotonic_seconds() - started_;
    folder_.require_in_place();
    metrics_->sync();  // the records up to a checkpoint must be durable before it is
    complete(contents);
  }
  if (divided_saving_) return save_divided(std::move(contents));
  contents.optimizer = optimizer_.state();
  if (saving_) return saving_->start(std::move(contents));
  finish_save([&] { return checkpoints_->save(contents); });
}

void Trainer::save_divided(CheckpointContents contents) {
  if (!processes_.leads()) contents = {};
  divided_saving_->start(std::move(contents), optimizer_.state_parts());
  if (!saves_beside_steps()) wait_for_checkpoint();
}

void Trainer::complete(CheckpointContents& contents) const {
  contents.step = state_.step;
  if (evaluated_at_ == state_.step && validation_score_ && std::isfinite(*validation_score_)) {
    contents.metric = validation_score_;
    contents.higher_is_better = task_.score().higher_is_better;
  }
  contents.model = tensors_of(task_.model().parameters());
  contents.trainer_json = to_json(state_);
  contents.files = task_.files();
  contents.config_yaml = print_resolved(with_absolute_paths(config_));
}

void Trainer::wait_for_checkpoint() {
  const bool divided = divided_saving_ && divided_saving_->under_way();
  if (!divided && !(saving_ && saving_->under_way())) return;
  const WaitScope wait(kWaitForCheckpoint);
  finish_save([&] { return divided ? divided_saving_->finish() : *saving_->wait(); });
}

void Trainer::finish_save(FunctionRef<std::filesystem::path()> save) {
  try {
    const std::filesystem::path folder = save();
    if (metrics_) log_debug("step " + std::to_string(saving_step_) + ": saved " + folder.string());
  } catch (const StorageError&) {
    if (metrics_) folder_.require_in_place();  // where the run folder is gone, that is the reason
    throw;
  }
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
  const bool over = monotonic_seconds() - started_ >= limit;
  return processes_.max(over ? 1 : 0) > 0 ? "stopped after " + text_of(limit) + " s" : "";
}

/// The remarks of the task, and one that the average of a short run consists of its first weights.
std::vector<std::pair<std::string, std::string>> Trainer::remarks() const {
  std::vector<std::pair<std::string, std::string>> remarks = task_.remarks();
  if (train_step_.average() == nullptr) return remarks;
  constexpr double kMuch = 0.01;
  const double share = train_step_.average()->decay().share_of_first(state_.step);
  if (share < kMuch) return remarks;
  char text[160];
  std::snprintf(text, sizeof text,
                "%.0f%% of it are still the initial weights: lower ema.decay, or set ema.warmup: true",
                100 * share);
  remarks.emplace_back("moving average", text);
  return remarks;
}

TrainOutcome Trainer::finish(std::string reason) {
  if (trace_ && trace_->has_news()) write_trace();  // it ended among the traced steps
  progress_.finish();
  TrainOutcome outcome;
  outcome.finished = is_finished();
  outcome.reason = std::move(reason);
  RunSummary& summary = outcome.summary;
  summary.outcome = outcome.reason;
  summary.step = state_.step;
  summary.items_name = task_.unit().plural;
  summary.items = state_.items - items_before_;
  summary.elapsed_seconds = monotonic_seconds() - started_;
  if (summary.items > 0) summary.train_loss = last_.loss;
  summary.score_name = task_.score().name;
  summary.validation_score = validation_score_;
  summary.best_validation_score = state_.best_score;
  for (const NamedScalar& scalar : last_.statistics.scalars) {
    if (!scalar.label.empty()) summary.shares.emplace_back(in_words(scalar.name), scalar.value);
  }
  summary.peak_memory_bytes = memory_stats(config_.device).total.peak_bytes;
  summary.peak_process_memory_bytes = peak_process_memory();
  summary.remarks = remarks();
  summary.output_dir = config_.output.dir.string();
  return outcome;
}

}  // namespace moh
