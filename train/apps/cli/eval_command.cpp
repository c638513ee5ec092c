#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/in_processes.h"
#include "train/apps/eval/evaluation_report.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/trainer/run/run_facts.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/stored_model.h"

namespace moh::cli {

namespace {

struct EvalArgs : CheckpointArgs {
  std::string config;
  bool json = false;
};

void print(const EvaluationReport& report, bool as_json) {
  if (as_json)
    write_json_line(std::cout, report);
  else
    write_table(std::cout, report);
}

int eval_in(const EvalArgs& args, const Families& families, Communicator& processes) {
  const std::shared_ptr<Console> console = console_of(processes, STDERR_FILENO);
  start_logging(console);
  StoredModel stored(args.checkpoint, families);
  stored.describe_by(args.config);
  const std::vector<std::string> overrides = evaluation_settings(args.overrides, stored.family());
  LoadedModel loaded = load_model(std::move(stored), overrides, ConfigUse::kModel, processes);
  begin_together(loaded.config, processes);
  require_same_model(loaded, processes);
  const auto data = open_data_in_turn(loaded.config, *loaded.family, DataUse::kEvaluation, processes);
  const auto task = loaded.family->make_task(loaded.config, data, std::move(loaded.model));
  require_same(data_facts(task->identity()), processes);
  processes.set_deadline(loaded.config.comm.timeout);
  StatusLine line(*console);
  const auto show = [&](const EvaluationProgress& progress) {
    line.update([&] {
      return describe_progress("eval", progress.done, progress.total, task->unit().plural, line.elapsed());
    });
    return false;  // a signal ends the process at once: there is nothing to save
  };
  const std::optional<Evaluation> evaluation = task->evaluate(show, processes);
  line.finish();
  if (!evaluation) throw DataError("eval: there are no held-out data to evaluate on");
  if (processes.is_rank0())
    print(EvaluationReport{loaded.path.string(), task->score(), *evaluation}, args.json);
  if (!std::isfinite(evaluation->score)) {
    throw NumericError(
        error_message("eval", task->score().name, "a finite number", std::to_string(evaluation->score)));
  }
  return kDone;
}

int eval(const EvalArgs& args, const Families& families) {
  return in_processes([&](Communicator& processes) { return eval_in(args, families, processes); });
}

}  // namespace

void add_eval(const Commands& commands) {
  const auto [command, args] = add_command(commands, "eval", "Evaluate a checkpoint on held-out data", eval);
  add_checkpoint_and_text(command, args);
  add_description(command, args.config);
  // Not required by `moh eval fid`.
  command.get_option("--checkpoint")->required(false);
  command.require_subcommand(0, 1);
  command.parse_complete_callback([&command = command, &args = args] {
    if (args.checkpoint.empty() && command.get_subcommands().empty())
      throw CLI::RequiredError("--checkpoint");
  });
  add_eval_fid({command, commands.action});
  command.add_flag("--json", args.json, "Print one JSON object instead of a table, with all details");
  command.footer(
      R"(Without data=PATH, evaluates the data that the run held out: all of it, unless the run or the command sets eval.max_tokens
or eval.max_pictures; with data=PATH, all of it, unless the command sets one.
Of a run with ema.evaluate the moving average of the weights is evaluated; ema.evaluate=false takes the weights.
Benchmarks of language models, such as MMLU, are asked by scripts/lm_eval.py (docs/evaluation.md).

Examples:
  moh eval --checkpoint runs/llm/quickstart
  moh eval --checkpoint runs/llm/quickstart/checkpoints/step_00000500 data=novel.txt eval.max_tokens=100000
  moh eval --checkpoint runs/cifar10 data=cifar10/test --json > test.json)");
}

}  // namespace moh::cli
