#include "train/apps/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/keep_freed_memory.h"
#include "train/apps/cli/command_line_errors.h"
#include "train/apps/cli/command_line_words.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/finite_numbers.h"
#include "train/apps/cli/standard_streams.h"
#include "train/base/io/error_words.h"
#include "train/base/log/logging.h"

namespace moh::cli {

namespace {

/// The output of --version, with the instruction set of the kernels on this machine: "moh 0.1.0 (commit
/// 1374d53a0c, GNU 12.2.0, no CUDA, avx512)".
std::string version_text(std::string_view commit) {
  return "moh " MOH_VERSION " (commit " + std::string(commit.empty() ? "not known" : commit) +
         ", " MOH_BUILD ", " + std::string(cpu_isa_name(cpu_isa())) + ")";
}

/// Parses the command line and runs the command that it names.
int parse_and_run(CLI::App& app, const Action& action, int argc, char** argv, const Families& families) {
  if (refuse_unknown_command(app, argc, argv)) return kConfigError;
  try {
    std::vector<std::string> arguments = with_checkpoint_named(app, {argv + std::min(argc, 1), argv + argc});
    std::ranges::reverse(arguments);  // as the parser wants them
    app.parse(std::move(arguments));
    refuse_words(app);
  } catch (const CLI::ParseError& error) {
    // The parser throws for --help and --version, too, with code 0.
    if (error.get_exit_code() != 0) throw ConfigError(describe_parse_error(app, error));
    app.exit(error);
    require_written_output();
    return kDone;
  }
  const int code = action(families);
  if (code == kDone) require_written_output();
  return code;
}

}  // namespace

int run(int argc, char** argv, const Families& families, std::string_view commit) {
  occupy_closed_streams();
  keep_freed_memory();
  CLI::App app("moh: trains transformers with Mixture-of-Head attention (arXiv 2410.11842)", "moh");
  app.set_version_flag("--version", [commit] { return version_text(commit); });
  app.require_subcommand(1);
  app.option_defaults()
      ->always_capture_default();  // for the help; lists that begin empty have default_str("")
  app.footer(std::string("`moh COMMAND --help` explains a command, with examples.\n\n") + kExitCodes);
  Action action;
  const Commands commands{app, action};
  add_quickstart(commands);
  add_train(commands);
  add_eval(commands);
  add_analyze(commands);
  add_generate(commands);
  add_translate(commands);
  add_predict(commands);
  add_sample(commands);
  add_serve(commands);
  add_config(commands);
  add_plan(commands);
  add_data(commands);
  add_checkpoint_commands(commands);
  add_convert(commands);
  add_bench(commands);
  add_doctor(commands, [commit] { return version_text(commit); });
  add_status(commands);
  add_watch(commands);
  require_finite_numbers(app);
  try {
    return parse_and_run(app, action, argc, argv, families);
  } catch (const std::exception& error) {
    log_error(error_words(error));
    return exit_code_of(error);
  }
}

}  // namespace moh::cli
