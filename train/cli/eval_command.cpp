#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/io/printable.h"
#include "train/log/progress.h"
#include "train/tasks/load_model.h"

namespace moh::cli {

namespace {

/// `data=PATH` is short for `data.validation=PATH` without eval.max_tokens, which limits evaluations during
/// training.
std::vector<std::string> expanded(const std::vector<std::string>& given) {
  std::vector<std::string> overrides;
  for (const std::string& text : given) {
    if (!text.starts_with("data=")) continue;
    overrides = {"data.validation=" + text.substr(5), "eval.max_tokens=0"};
  }
  for (const std::string& text : given) {
    if (!text.starts_with("data=")) overrides.push_back(text);
  }
  return overrides;
}

int eval(const CheckpointArgs& args, const Families& families) {
  LoadedModel loaded = load_model(args.checkpoint, families, expanded(args.overrides));
  set_num_threads(loaded.config.threads);
  const auto data = loaded.family->open_data(loaded.config, DataUse::kEvaluation);
  const auto task = loaded.family->make_task(loaded.config, data, std::move(loaded.model));
  Console console(STDERR_FILENO);
  StatusLine line(console);
  const auto show = [&](const EvaluationProgress& progress) {
    line.update([&] {
      return describe_progress("eval", progress.done, progress.total, task->unit().plural, line.elapsed());
    });
    return false;  // a signal ends the process at once: there is nothing to save
  };
  const std::optional<Evaluation> evaluation = task->evaluate(show);
  line.finish();
  if (!evaluation) throw DataError("eval: there are no held-out data to evaluate on");
  std::printf("checkpoint     %s\n", printable_path(loaded.path).c_str());
  std::printf("evaluated      %s\n", evaluation->coverage.c_str());
  std::printf("%-14s %.6f\n", std::string(task->score().name).c_str(), evaluation->score);
  for (const auto& [name, value] : evaluation->metrics) std::printf("%-14s %.6f\n", name.c_str(), value);
  if (!std::isfinite(evaluation->score)) {
    throw NumericError(
        error_message("eval", task->score().name, "a finite number", std::to_string(evaluation->score)));
  }
  return kDone;
}

}  // namespace

void add_eval(const Commands& commands) {
  const auto [command, args] = add_command(commands, "eval", "Evaluate a checkpoint on held-out data", eval);
  add_checkpoint_and_text(command, args);
  command.footer(
      R"(Without data=PATH, the text that the run held out is used, as far as eval.max_tokens allows; of data=PATH all.

Examples:
  moh eval --checkpoint runs/quickstart
  moh eval --checkpoint runs/quickstart/checkpoints/step_00000500 data=novel.txt eval.max_tokens=100000)");
}

}  // namespace moh::cli
