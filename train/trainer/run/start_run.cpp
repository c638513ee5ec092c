#include "train/trainer/run/start_run.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/error.h"
#include "ops/attention/backend.h"
#include "train/base/log/logging.h"
#include "train/comm/device_collectives.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/run/config_change.h"
#include "train/trainer/run/existing_run.h"
#include "train/trainer/run/resume_point.h"
#include "train/trainer/run/run_facts.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/run/start_model.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

namespace {

/// The options by which the processes of a run do different work.
SharedFacts facts_of(const StartOptions& options) {
  const auto given = [](const char* name, bool value) {
    return SharedFact{FactKind::kSettings, name, value ? "given" : "not given"};
  };
  return {given("--resume", options.resume), given("--overwrite", options.overwrite),
          given("--allow-older", options.allow_older), given("--allow-changes", options.allow_changes),
          SharedFact{FactKind::kSettings, "--resume-from", options.resume_from.string()}};
}

/// The facts that the processes have found out since they began: shared heads that were measured, tokenizer
/// and classes, the teacher.
SharedFacts facts_of(const RunConfig& config, const Task& task) {
  SharedFacts facts = config_facts(config);
  for (const SharedFacts& more :
       {data_facts(task.identity()), data_facts(task.data_contents()), device_facts(config)})
    facts.insert(facts.end(), more.begin(), more.end());
  return facts;
}

/// In the process that writes: locks the folder, and opens the checkpoints in it.
std::optional<CheckpointStore> open_checkpoints(const RunConfig& config, const RunHost& host) {
  if (!host.processes.is_rank0()) return std::nullopt;
  host.folder.open(config.output.dir);
  if (!host.folder.crashed_holder().empty())
    log_info("the last process of this run did not end cleanly: " + host.folder.crashed_holder());
  const CheckpointConfig& keep = config.checkpoint;
  const RetentionPolicy retention = {static_cast<int>(keep.keep_last), keep.keep_best, keep.keep};
  return CheckpointStore(config.output.dir, retention, [](const std::string& text) { log_warning(text); });
}

void describe_device(const RunConfig& config) {
  if (config.device != kCpu) {
    log_info("device: " + cuda::describe_device());
    log_info("dense attention: " +
             describe_attention_backend(config.attention.backend, dtype_of(config.precision)));
  } else if (config.precision == Precision::kBFloat16 && cpu_isa() == base_isa(cpu_isa())) {
    log_warning("precision: bfloat16 saves memory, not time, with the instruction set " +
                std::string(cpu_isa_name(cpu_isa())) + ": its arithmetic is float32's, with conversions");
  }
}

/// Gives all processes the first one's parameters. Of those that are divided each process keeps what it has.
void share_parameters(const Model& model, const RunConfig& config, Communicator& processes,
                      ShardedParameters* sharded) {
  if (sharded != nullptr) {
    sharded->end_filling();
    return share_values(sharded->others(), config, processes);
  }
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : model.parameters()) values.push_back(parameter.variable.value());
  share_values(values, config, processes);
}

void describe_task(const Task& task, const RunConfig& config) {
  log_info(task.summary());
  for (const std::string& line : describe_groups(task.model(), config.optim.adamw.groups)) log_info(line);
}

/// A branch that trains nothing would leave a run without a checkpoint.
void require_steps_left(const RunConfig& config, const Task& task, const ResumePoint& from) {
  const std::int64_t steps = length_of(config, task.steps_per_epoch()).steps, begun = from.checkpoint.step();
  if (from.on_change != OnChange::kNote || steps > begun) return;
  throw ConfigError(
      error_message("train.steps", "", "more than the " + std::to_string(begun) + " steps of --resume-from",
                    std::to_string(steps), "a branch goes on counting: add the steps that it shall make"));
}

/// Makes the folder the run's own; every process has its log there.
void enter_folder(const RunConfig& config, const std::string& config_yaml, const StartOptions& options,
                  const RunHost& host) {
  Communicator& processes = host.processes;
  processes.barrier();
  if (processes.is_rank0()) {
    host.folder.begin(origin_line(options.config_file) + config_yaml, options.overwrite);
    host.console->copy_to(host.folder.open_log());
  }
  processes.barrier();
  if (!processes.is_rank0())
    host.console->copy_to(RunFolder::open_log_of(config.output.dir, processes.rank()));
}

/// Calls Task::finish() for a finished run; false if a signal interrupted it. All processes make the sample,
/// as each may have a part of the parameters, and one writes it.
bool finish_task(const Task& task, const RunHost& host) {
  const bool writes = host.processes.is_rank0();
  if (writes) host.folder.require_in_place();
  const auto print = [&](const std::string& text) {
    if (writes) host.console->print(text);
  };
  std::int64_t signal = 0;
  const auto stop = [&] { return (signal = host.processes.max(host.stop.number())) != 0; };
  if (task.finish(writes ? host.folder.path() : std::filesystem::path(), print, stop)) return true;
  log_info("train: stopped by " + std::string(StopSignal::name_of(static_cast<int>(signal))) +
           " in the sample; --resume writes it");
  return false;
}

/// Trains, and finishes the task; then the processes leave the collectives of their GPUs, which wait for
/// graphs that have captured some.
TrainOutcome run_to_end(Trainer& trainer, DeviceCollectives* collectives, const Task& task,
                        const RunHost& host) {
  std::optional<AbortOnFailure> guard;
  if (collectives != nullptr) guard.emplace(*collectives, [&] { trainer.release_graphs(); });
  TrainOutcome outcome = trainer.run();
  if (outcome.finished) outcome.finished = finish_task(task, host);
  if (collectives == nullptr) return outcome;
  cuda::synchronize();
  trainer.release_graphs();
  collectives->leave();
  return outcome;
}

}  // namespace

TrainOutcome start_run(RunConfig config, const StartOptions& options, const RunHost& host) {
  Communicator& processes = host.processes;
  begin_together(config, processes, facts_of(options));
  const TrainConfig train_of_rank = per_rank_config(config, processes.size());

  take_gpu(config, processes);
  open_configured_device(config, NewProducts::kSearchAndKeep);
  const std::unique_ptr<DeviceCollectives> collectives = open_gpu_collectives(config, processes);

  std::optional<CheckpointStore> store = open_checkpoints(config, host);
  CheckpointStore* const checkpoints = store ? &*store : nullptr;
  std::optional<ResumePoint> found = find_resume_point(checkpoints, config, options, host);
  const StoredCheckpoint* const resume_from = found ? &found->checkpoint : nullptr;
  describe_device(config);

  const Family& family = host.families.of(config);
  const auto data = open_data_in_turn(config, family, DataUse::kTraining, processes);
  StartedModel started = start_model(config, family, data, resume_from, host);
  const std::string config_yaml = print_resolved(with_absolute_paths(config));

  config.train = train_of_rank;
  const std::unique_ptr<Task> task = family.make_task(config, data, std::move(started.model));
  add_teacher(*task, config, family, host.families);
  require_same(facts_of(config, *task), processes);
  share_parameters(task->model(), config, processes, started.sharded.get());
  describe_task(*task, config);
  if (found) require_steps_left(config, *task, *found);
  if (resume_from)
    review_data_changes(train_state_of(*resume_from).data, task->data_contents(), found->on_change);

  // Not before here: unreadable data, or a model too large for the memory, must not destroy the old run.
  host.stop.defer();
  enter_folder(config, config_yaml, options, host);
  processes.set_deadline(config.comm.timeout);
  const RunParts run = {config,    config_yaml,  *task,     host.folder,     checkpoints,
                        host.stop, host.console, processes, started.sharded, host.listener};
  Trainer trainer(run, resume_from);
  found.reset();
  return run_to_end(trainer, collectives.get(), *task, host);
}

}  // namespace moh
