#include "train/apps/cli/train_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <string>
#include <utility>

#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/in_processes.h"
#include "train/apps/plan/training_plan.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/run/training_config.h"

namespace moh::cli {

namespace {

/// Sets model.recompute to what computes least again in the memory that each process may take.
void fit_memory(RunConfig& run, const std::string& memory, int processes, const Families& families) {
  RecomputeLevel* const recompute = run.family->recompute();
  if (recompute == nullptr)
    throw ConfigError(error_message("moh train", "--memory", "a family with model.recompute", run.task));
  const std::int64_t bytes = parse_memory(memory, "--memory");
  set_num_threads(run.threads);  // whose workspace counts
  const MemoryChoice choice = choose_recompute(run, processes, bytes, synthetic_tasks(families.of(run)));
  *recompute = choice.recompute;
  log_info("model.recompute: " + std::string(name_of(choice.recompute)) + ", by plan " +
           format_bytes(choice.memory.needed_bytes()) + " of " + format_bytes(bytes) + ", and " +
           format_fixed(100 * choice.memory.recomputed, 1) + "% of the operations computed again");
}

/// Ends the process on a signal before there is anything to save, without waiting for other threads, and with
/// it the others of the run.
[[noreturn]] void end_early(RunFolder& folder, std::string_view signal, Communicator* processes) {
  folder.leave();
  log_info("train: stopped by " + std::string(signal) + " before the training began; nothing was written");
  if (processes != nullptr) processes->abort(kPreempted);
  ::_exit(kPreempted);
}

/// The time in which a signal ends the run early. It is over with the work, after an error, too: the
/// processes then leave each other, and when the first has exited with an error, mpirun sends SIGTERM to the
/// others, which have called MPI_Finalize and must not call MPI_Abort.
class EarlyStage {
 public:
  explicit EarlyStage(StopSignal& stop) : stop_(stop) {}
  ~EarlyStage() { stop_.defer(); }
  EarlyStage(const EarlyStage&) = delete;
  EarlyStage& operator=(const EarlyStage&) = delete;

 private:
  StopSignal& stop_;
};

}  // namespace

int train(const TrainArgs& args, const Families& families) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe, such as of `| head`, must not end the training
  RunFolder folder;
  std::atomic<Communicator*> others = nullptr;
  StopSignal stop([&](std::string_view signal) { end_early(folder, signal, others); });
  return in_processes([&](Communicator& processes) {
    if (!processes.alone()) others = &processes;
    const EarlyStage early(stop);
    const std::shared_ptr<Console> console = console_of(processes, STDOUT_FILENO);
    start_logging(console, args.log_level);
    StartOptions options = args.start;
    options.config_file = args.config;
    RunConfig run =
        training_config(RunFile(args.config, args.overrides, families.configs()), args.start, families);
    if (!args.memory.empty()) fit_memory(run, args.memory, processes.size(), families);
    const TrainOutcome outcome = start_run(run, options, {families, folder, stop, console, processes});
    console->print(format_summary(outcome.summary));
    return outcome.finished ? kDone : kPreempted;
  });
}

void add_train(const Commands& commands) {
  const auto [command, args] = add_command(commands, "train", "Train a model from a configuration", train);
  add_run_arguments(command, args, /*required=*/true);
  command.add_flag("--resume", args.start.resume,
                   "Resume from the newest checkpoint in output.dir, if there is one");
  CLI::Option* overwrite =
      command.add_flag("--overwrite", args.start.overwrite, "Remove the run in output.dir and start over");
  overwrite->excludes("--resume");
  command
      .add_option("--resume-from", args.start.resume_from,
                  "Begin a run of its own in output.dir from a checkpoint of another run, with its weights, "
                  "optimiser and place in the data: RUN@STEP, or RUN for the newest")
      ->type_name("CHECKPOINT");
  command.add_flag("--allow-older", args.start.allow_older,
                   "Resume from an older checkpoint if the newest is damaged");
  command.add_flag("--allow-changes", args.start.allow_changes,
                   "Resume although the configuration or the data changes what is computed");
  command.add_option(
      "--memory", args.memory,
      "Choose model.recompute: what computes least again, by plan, in this memory of each process "
      "(80GB, 79.6GiB, or bytes)");
  command.add_option("--log-level", args.log_level, "trace, debug, info, warning, error or off");
  command.footer(R"(Examples:
  moh train configs/llm/quickstart.yaml
  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50
  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50 --resume
  moh train stable.yaml --resume-from runs/stable@8000 output.dir=runs/decay_8000 train.steps=10000 schedule.kind=linear schedule.cooldown_steps=2000

)" + std::string(kExitCodes));
}

}  // namespace moh::cli
