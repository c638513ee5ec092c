#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>

#include "core/cuda/backend.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/attention/backend.h"
#include "train/checkpoint/train_state.h"
#include "train/cli/commands.h"
#include "train/cli/run_facts.h"
#include "train/cli/several_processes.h"
#include "train/config/active_heads.h"
#include "train/log/logging.h"
#include "train/moh/init/initialise_model.h"
#include "train/run/config_change.h"
#include "train/run/existing_run.h"
#include "train/run/run_folder.h"
#include "train/run/trainer.h"
#include "train/tasks/load_model.h"
#include "train/tasks/model_source.h"
#include "train/weights/load_weights.h"

namespace moh::cli {

namespace {

struct TrainArgs : RunArgs {
  bool resume = false;         ///< resume from the newest checkpoint in output.dir, if there is one
  bool overwrite = false;      ///< remove the run that is in output.dir
  bool allow_older = false;    ///< when the newest checkpoint is damaged, use the one before
  bool allow_changes = false;  ///< resume although the configuration changes what the steps compute
  std::string log_level;
};

/// Takes over shared heads that were measured at the start of the run, so that they are not measured again.
void take_measured_heads(const RunConfig& before, RunConfig& config) {
  const MohConfig* measured = before.family->moh();
  MohConfig* moh = config.family->moh();
  if (moh != nullptr && measured != nullptr && moh->shared_heads.to_be_measured())
    moh->shared_heads = measured->shared_heads;
}

/// The checkpoint to resume from; nothing for a new run.
std::optional<StoredCheckpoint> find_checkpoint(CheckpointStore& store, const RunConfig& config,
                                                const TrainArgs& args) {
  if (args.overwrite) return std::nullopt;
  if (!args.resume) {
    const std::vector<CheckpointInfo> found = store.list();
    if (found.empty()) return std::nullopt;
    refuse_existing_run(config, args.config, found.back().step);
  }
  std::optional<StoredCheckpoint> newest = store.open_newest(args.allow_older);
  if (!newest) {
    log_info("resume: no checkpoint in " + config.output.dir.string() + " yet; starting at step 0");
    return std::nullopt;
  }
  require_resumable(*newest);
  return newest;
}

/// The same for all processes: the first one, which has a store, decides.
std::optional<StoredCheckpoint> find_resume_point(CheckpointStore* store, RunConfig& config,
                                                  const TrainArgs& args, const Families& families,
                                                  Communicator& processes) {
  std::optional<StoredCheckpoint> newest;
  if (store != nullptr) newest = find_checkpoint(*store, config, args);
  const std::int64_t step = processes.max(newest ? newest->step() : -1);
  if (step < 0) return std::nullopt;
  if (!newest) newest.emplace(config.output.dir / "checkpoints" / checkpoint_folder_name(step));
  require_same({checkpoint_fact("output.dir", newest->folder())}, processes);
  const std::filesystem::path saved = newest->folder() / "config.yaml";
  const RunConfig before = load_run_config(saved.string(), {}, families.configs());
  take_measured_heads(before, config);
  RunConfig compared = config;
  if (!processes.alone()) compared.device.index = before.device.index;  // each has taken a GPU of its own
  review_config_changes(before, compared, args.allow_changes, train_state_of(*newest).data);
  log_info("resume: from step " + std::to_string(newest->step()));
  return newest;
}

/// The model of the newest checkpoint of a run whose configuration can be read. Damage is reported later,
/// when the checkpoint is loaded.
std::unique_ptr<FamilyConfig> saved_model(const std::filesystem::path& run_folder, const Families& families) {
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(run_folder / "checkpoints");
  for (auto info = checkpoints.rbegin(); info != checkpoints.rend(); ++info) {
    try {
      const std::vector<std::string> settings = settings_of_checkpoint(info->folder, families);
      return load_run_config((info->folder / "config.yaml").string(), settings, families.configs())
          .family->clone();
    } catch (const ConfigError&) {
      continue;
    }
  }
  return nullptr;
}

/// The run's configuration. A resumed run has the model of its own checkpoint: that of init.from may no
/// longer exist, and shared heads measured on it are in the run's checkpoint.
RunConfig finish_config(RunFile& file, const TrainArgs& args, const Families& families) {
  if (args.resume && file.leaves_model_open()) {
    if (const auto saved = saved_model(file.run().output.dir, families))
      return file.finish(ConfigUse::kData, saved.get());
  }
  return finish_run(file, families, ConfigUse::kData);
}

RunConfig read_config(const TrainArgs& args, const Families& families) {
  RunFile file = open_run(args, families);
  const std::size_t logged = file.notes().size();
  RunConfig run = finish_config(file, args, families);
  log_notes(file, logged);
  const MohConfig* const moh = run.family->moh();
  const std::string note = moh == nullptr ? "" : config::note_of_some_layers(*moh, run.family->heads());
  if (!note.empty()) log_info(note);
  return run;
}

/// The model of a run with weights of the checkpoint to resume from, of init.from, or random ones. Replaces a
/// rule for shared heads that needs measurements in `run` by the measured lists.
std::unique_ptr<Model> begin_model(RunConfig& run, const Family& family, const Families& families,
                                   const std::shared_ptr<const TaskData>& data,
                                   const StoredCheckpoint* resume_from) {
  if (resume_from != nullptr) {
    const std::string where = "checkpoint " + checkpoint_folder_name(resume_from->step());
    require_exactly(where, resume_from->model(),
                    expected_tensors(family, *run.family, dtype_of(run.precision)));
    std::unique_ptr<Model> model = make_initialised_model(family, run);
    load_exactly(where, resume_from->model(), tensors_of(model->parameters()));
    return model;
  }
  if (run.init.from.empty()) return make_initialised_model(family, run);
  const ModelSource source = open_source(run, families);
  const std::unique_ptr<Calibration> calibration = family.make_calibration(run, data);
  settle_shared_heads(run, family, source, *calibration);
  std::unique_ptr<Model> model = make_initialised_model(family, run);
  initialise_from_source(*model, source, run, family, *calibration);
  return model;
}

/// Gives the task a teacher with weights of its own, which are read again when the run is resumed.
void add_teacher(Task& task, const RunConfig& run, const Family& family, const Families& families) {
  if (!has_own_teacher(run)) return;
  const ModelSource source = open_source(run, families);
  log_info("init.distill: the teacher is " + source.weights->path().string());
  task.set_teacher(load_teacher(source, run, family), content_hash(*source.weights, [](std::uint64_t) {}));
}

/// The options by which the processes of a run do different work.
SharedFacts options_of(const TrainArgs& args) {
  const auto given = [](const char* name, bool value) {
    return SharedFact{FactKind::kSettings, name, value ? "given" : "not given"};
  };
  return {given("--resume", args.resume), given("--overwrite", args.overwrite),
          given("--allow-older", args.allow_older), given("--allow-changes", args.allow_changes)};
}

/// Before shared heads and routers are measured on the weights of init.from.
void require_same_source(const RunConfig& run, Communicator& processes) {
  if (processes.alone() || run.init.from.empty()) return;
  require_same({weights_fact("init.from", run.init.from, run.init.part)}, processes);
}

/// What the processes have found out since they began: shared heads that were measured, tokenizer and
/// classes, the teacher.
SharedFacts facts_of(const RunConfig& config, const Task& task) {
  SharedFacts facts = config_facts(config);
  for (const SharedFacts& more :
       {data_facts(task.identity()), data_facts(task.data_contents()), device_facts(config)})
    facts.insert(facts.end(), more.begin(), more.end());
  return facts;
}

void describe_device(const RunConfig& run) {
  if (run.device != kCpu) {
    log_info("device: " + cuda::describe_device());
    log_info("dense attention: " +
             describe_attention_backend(run.attention.backend, dtype_of(run.precision)));
  } else if (run.precision == Precision::kBFloat16) {
    log_warning(
        "precision: bfloat16 on the CPU saves memory, not time: its arithmetic is float32's, with "
        "conversions");
  }
}

/// Ends the process on a signal before there is anything to save, without waiting for other threads, and with
/// it the others of the run.
[[noreturn]] void end_early(RunFolder& folder, std::string_view signal, Communicator* processes) {
  folder.leave();
  log_info("train: stopped by " + std::string(signal) + " before the training began; nothing was written");
  if (processes != nullptr) processes->abort(kPreempted);
  ::_exit(kPreempted);
}

/// Calls Task::finish() for a finished run; false if a signal interrupted it.
bool finish_task(const Task& task, const RunFolder& folder, Console& console, const StopSignal& stop) {
  folder.require_in_place();
  const auto print = [&](const std::string& text) { console.print(text); };
  if (task.finish(folder.path(), print, [&] { return stop.requested(); })) return true;
  log_info("train: stopped by " + std::string(stop.name()) + " in the sample; --resume writes it");
  return false;
}

/// Trains; then the processes leave the collectives of their GPUs.
TrainOutcome run_to_end(Trainer& trainer, DeviceCollectives* collectives) {
  if (collectives == nullptr) return trainer.run();
  const AbortOnFailure guard(*collectives);
  TrainOutcome outcome = trainer.run();
  collectives->leave();
  return outcome;
}

/// The run of one process, or of one of several, of which the first writes the files and speaks.
int train_in(const TrainArgs& args, const Families& families, RunFolder& folder, StopSignal& stop,
             const std::shared_ptr<Console>& console, Communicator& processes) {
  RunConfig config = read_config(args, families);
  begin_together(config, processes, options_of(args));
  const TrainConfig train_of_rank = per_rank_config(config, processes.size());
  take_gpu(config, processes);
  open_configured_device(config, NewProducts::kSearchAndKeep);
  const std::unique_ptr<DeviceCollectives> collectives = open_gpu_collectives(config, processes);
  std::optional<CheckpointStore> store;
  if (processes.leads()) {
    folder.open(config.output.dir);
    if (!folder.crashed_holder().empty())
      log_info("the last process of this run did not end cleanly: " + folder.crashed_holder());
    store.emplace(config.output.dir,
                  RetentionPolicy{static_cast<int>(config.checkpoint.keep_last), config.checkpoint.keep_best,
                                  config.checkpoint.keep},
                  [](const std::string& warning) { log_warning(warning); });
  }
  CheckpointStore* const checkpoints = store ? &*store : nullptr;
  std::optional<StoredCheckpoint> resume_from =
      find_resume_point(checkpoints, config, args, families, processes);
  describe_device(config);
  const Family& family = families.of(config);
  const std::shared_ptr<const TaskData> data =
      open_data_in_turn(config, family, DataUse::kTraining, processes);
  if (!resume_from) require_same_source(config, processes);
  std::unique_ptr<Model> model =
      begin_model(config, family, families, data, resume_from ? &*resume_from : nullptr);
  const std::string config_yaml = print_resolved(with_absolute_paths(config));
  config.train = train_of_rank;
  const std::unique_ptr<Task> task = family.make_task(config, data, std::move(model));
  add_teacher(*task, config, family, families);
  require_same(facts_of(config, *task), processes);
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : task->model().parameters())
    values.push_back(parameter.variable.value());
  share_values(values, config, processes);
  log_info(task->summary());
  for (const std::string& line : describe_groups(task->model(), config.optim.adamw.groups)) log_info(line);
  if (resume_from)
    review_data_changes(train_state_of(*resume_from).data, task->data_contents(), args.allow_changes);
  stop.defer();
  // Not before here: unreadable data, or a model too large for the memory, must not destroy the old run.
  processes.barrier();
  if (processes.leads()) {
    folder.begin(origin_line(args.config) + config_yaml, args.overwrite);
    console->copy_to(folder.open_log());
  }
  processes.barrier();
  if (!processes.leads()) console->copy_to(RunFolder::open_log_of(config.output.dir, processes.rank()));
  processes.set_deadline(config.comm.timeout);
  const RunParts run = {config, config_yaml, *task, folder, checkpoints, stop, console, processes};
  Trainer trainer(run, resume_from ? &*resume_from : nullptr);
  resume_from.reset();
  const TrainOutcome outcome = run_to_end(trainer, collectives.get());
  bool done = outcome.finished;
  if (done && processes.leads()) done = finish_task(*task, folder, *console, stop);
  console->print(format_summary(outcome.summary));
  return done ? kDone : kPreempted;
}

int train(const TrainArgs& args, const Families& families) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe, such as of `| head`, must not end the training
  RunFolder folder;
  std::atomic<Communicator*> others = nullptr;
  StopSignal stop([&](std::string_view signal) { end_early(folder, signal, others); });
  return in_processes([&](Communicator& processes) {
    if (!processes.alone()) others = &processes;
    const std::shared_ptr<Console> console = console_of(processes, STDOUT_FILENO);
    start_logging(console, args.log_level);
    return train_in(args, families, folder, stop, console, processes);
  });
}

}  // namespace

void add_train(const Commands& commands) {
  const auto [command, args] = add_command(commands, "train", "Train a model from a configuration", train);
  add_run_arguments(command, args, /*required=*/true);
  command.add_flag("--resume", args.resume,
                   "Resume from the newest checkpoint in output.dir, if there is one");
  CLI::Option* overwrite =
      command.add_flag("--overwrite", args.overwrite, "Remove the run in output.dir and start over");
  overwrite->excludes("--resume");
  command.add_flag("--allow-older", args.allow_older,
                   "Resume from an older checkpoint if the newest is damaged");
  command.add_flag("--allow-changes", args.allow_changes,
                   "Resume although the configuration or the data changes what is computed");
  command.add_option("--log-level", args.log_level, "trace, debug, info, warning, error or off");
  command.footer(R"(Examples:
  moh train configs/llm/quickstart.yaml
  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50
  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50 --resume

)" + std::string(kExitCodes));
}

}  // namespace moh::cli
