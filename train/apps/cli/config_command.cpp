#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/model_config.h"

namespace moh::cli {

namespace {

struct ConfigArgs : RunArgs {
  bool reference = false;  ///< print the reference of all keys instead
};

/// The resolved configuration, and in comments which heads are active and what is surprising about them.
std::string resolved_text(const RunArgs& args, const Families& families) {
  RunFile file = open_run(args, families);
  const std::size_t logged = file.notes().size();
  const RunConfig run = finish_run(file, families, ConfigUse::kData);
  std::string text = print_resolved(run);
  const MohConfig* const moh = run.family->moh();
  if (moh != nullptr && moh->router->routes())
    text += "# active heads: " + active_heads_of(run, families.of(run)) + '\n';
  for (std::size_t i = logged; i < file.notes().size(); ++i) text += "# warning: " + file.notes()[i] + '\n';
  return text;
}

int config(const ConfigArgs& args, const Families& families) {
  if (!args.reference && args.config.empty()) {
    throw ConfigError("moh config: expected a configuration file, or --reference");
  }
  const std::string text =
      args.reference ? print_reference(families.configs()) : resolved_text(args, families);
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace

void add_config(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "config", "Print a configuration with all defaults and includes resolved", config);
  add_run_arguments(command, args, /*required=*/false);
  command.add_flag("--reference", args.reference, "Print the reference of all keys (Markdown) instead");
  command.footer(R"(Examples:
  moh config configs/llm/moh_llm_s_50.yaml
  moh config configs/llm/quickstart.yaml train.steps=10 > tiny.yaml
  moh config --reference)");
}

}  // namespace moh::cli
