#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/cli/read_run.h"
#include "train/config/load_run_config.h"

namespace moh::cli {

namespace {

struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
  bool reference = false;  ///< print the reference of all keys instead
};

int config(const ConfigArgs& args, const Families& families) {
  if (!args.reference && args.config.empty()) {
    throw ConfigError("moh config: expected a configuration file, or --reference");
  }
  const std::string text =
      args.reference ? print_reference(families.configs())
                     : print_resolved(read_run(args.config, args.overrides, families, ConfigUse::kData));
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  CLI::App& command =
      *app.add_subcommand("config", "Print a configuration with all defaults and includes resolved");
  const auto args = std::make_shared<ConfigArgs>();
  add_config_arguments(command, args->config, args->overrides);
  command.add_flag("--reference", args->reference, "Print the reference of all keys (Markdown) instead");
  command.footer(
      "Examples:\n"
      "  moh config configs/llm/moh_llm_s_50.yaml\n"
      "  moh config configs/llm/quickstart.yaml train.steps=10 > tiny.yaml\n"
      "  moh config --reference");
  command.callback(
      [args, &action] { action = [args](const Families& families) { return config(*args, families); }; });
}

}  // namespace moh::cli
