#include "train/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/keep_freed_memory.h"
#include "train/cli/commands.h"
#include "train/cli/standard_streams.h"
#include "train/config/suggest.h"
#include "train/io/printable.h"
#include "train/log/logging.h"

namespace moh::cli {

namespace {

/// Whether the first argument is a command that does not exist; the parser would say that none is given.
bool refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string found = argv[1];
  if (std::ranges::find(names, found) != names.end()) return false;
  std::string expected = "one of ";
  for (const std::string& name : names) expected += (name == names.front() ? "" : ", ") + name;
  const std::string nearest = config::nearest_name(found, names);
  log_error(error_message("moh", "command", expected, "'" + printable(found) + "'",
                          nearest.empty() ? "moh --help explains them" : "did you mean " + nearest + "?"));
  return true;
}

int exit_code_of(const std::exception& error) {
  const auto is = [&]<class E>() { return dynamic_cast<const E*>(&error) != nullptr; };
  if (is.operator()<ConfigError>() || is.operator()<ValueError>() || is.operator()<DeviceError>())
    return kConfigError;
  if (is.operator()<DataError>() || is.operator()<CheckpointError>()) return kInputError;
  if (is.operator()<NumericError>()) return kNumericAbort;
  if (is.operator()<StorageError>()) return kStorageError;
  return kFailure;
}

int run_action(const Action& action, const Families& families) {
  try {
    const int code = action(families);
    if (code == kDone) require_written_output();
    return code;
  } catch (const std::exception& error) {
    log_error(error.what());
    return exit_code_of(error);
  }
}

}  // namespace

int run(int argc, char** argv, const Families& families) {
  occupy_closed_streams();
  keep_freed_memory();
  CLI::App app("moh: trains transformers with Mixture-of-Head attention (arXiv 2410.11842)", "moh");
  app.set_version_flag("--version", MOH_VERSION);
  app.require_subcommand(1);
  app.option_defaults()
      ->always_capture_default();  // for the help; lists that begin empty have default_str("")
  app.footer(std::string("`moh COMMAND --help` explains a command, with examples.\n\n") + kExitCodes);
  Action action;
  const Commands commands{app, action};
  add_train(commands);
  add_eval(commands);
  add_analyze(commands);
  add_generate(commands);
  add_config(commands);
  add_plan(commands);
  add_data(commands);
  add_checkpoint_commands(commands);
  add_convert(commands);
  add_bench(commands);
  if (refuse_unknown_command(app, argc, argv)) return kConfigError;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are "errors" of the parser, too, with code 0.
    return app.exit(error) == 0 ? kDone : kConfigError;
  }
  return run_action(action, families);
}

}  // namespace moh::cli
