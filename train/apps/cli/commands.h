#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/exit_code.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library's
class App;
}

/// The commands of the `moh` program. Each is a file with its options and its action, which returns an exit
/// code or throws.
namespace moh::cli {

/// The end of each help text.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 configuration or command line, 3 data or checkpoint that cannot be read, 4 loss "
    "not finite,\n"
    "5 file that cannot be written, 6 another process of the run is lost, 75 stopped early with everything "
    "saved (start again with --resume).";

/// The action of the selected command, which runs after parsing.
using Action = std::function<int(const Families&)>;

/// The parent of commands (the program, or a command with subcommands), and the variable that gets the
/// action.
struct Commands {
  CLI::App& parser;
  Action& action;
};

void add_train(const Commands& commands);
void add_eval(const Commands& commands);
void add_eval_fid(const Commands& eval);
void add_analyze(const Commands& commands);
void add_generate(const Commands& commands);
void add_translate(const Commands& commands);
void add_predict(const Commands& commands);
void add_sample(const Commands& commands);
void add_serve(const Commands& commands);
void add_config(const Commands& commands);
void add_plan(const Commands& commands);
void add_data(const Commands& commands);
void add_data_latents(const Commands& data);
void add_checkpoint_commands(const Commands& commands);
void add_convert(const Commands& commands);
void add_bench(const Commands& commands);
void add_quickstart(const Commands& commands);
void add_status(const Commands& commands);
void add_watch(const Commands& commands);
/// `version`: the output of --version.
void add_doctor(const Commands& commands, const std::function<std::string()>& version);

// Shared helpers.

/// Adds a command that only has subcommands.
Commands add_group(const Commands& commands, const char* name, const char* description);
CLI::App& add_parser(const Commands& commands, const char* name, const char* description, Action action);

/// Adds a command. Returns it with the arguments to which its options are bound.
template <class Args>
struct Command {
  CLI::App& parser;
  Args& args;
};
template <class Args>
Command<Args> add_command(const Commands& commands, const char* name, const char* description,
                          int (*run)(const Args&, const Families&)) {
  const auto args = std::make_shared<Args>();
  const auto action = [=](const Families& families) { return run(*args, families); };
  return {add_parser(commands, name, description, action), *args};
}

/// The configuration of a run.
struct RunArgs {
  std::string config;                  ///< file
  std::vector<std::string> overrides;  ///< key.path=value
};
void add_run_arguments(CLI::App& command, RunArgs& args, bool required);

/// Opens the file, and logs renamed keys. Throws ConfigError.
RunFile open_run(const RunArgs& args, const Families& families);
/// The configuration, with the model of init.from if the file does not describe one. Throws ConfigError,
/// CheckpointError.
RunConfig read_run(const RunArgs& args, const Families& families, ConfigUse use);

/// A checkpoint, and the text for its evaluation or analysis.
struct CheckpointArgs {
  std::string checkpoint;
  std::vector<std::string> overrides;  ///< data=PATH, and settings of the run
};
void add_checkpoint(CLI::App& command, std::string& checkpoint);
/// The settings of a command that evaluates: data=PATH is short for those with which all of PATH is.
std::vector<std::string> evaluation_settings(const std::vector<std::string>& given, const Family& family);
/// --config, for weights that come without a configuration (load_model's `description`).
void add_description(CLI::App& command, std::string& config);

/// Where a trained model computes.
struct PlacementArgs {
  std::vector<std::string> overrides;  ///< settings of the run
  std::int64_t threads = 0;
  std::string device;  ///< empty: that of the training run

  /// The overrides, and what --device sets.
  std::vector<std::string> settings() const;
};
void add_placement(CLI::App& command, PlacementArgs& args);

void add_checkpoint_and_text(CLI::App& command, CheckpointArgs& args);

/// The option --set KEY=VALUE, an earlier form of settings that are given without it.
void add_set(CLI::App& command, std::vector<std::string>& settings);
/// Moves what is a setting, key.path=value and no file's name, from the values of a list that takes all that
/// follows it, such as files, to `settings`.
void move_settings(std::vector<std::string>& values, std::vector<std::string>& settings);

/// Prints what a shard of latents, or a folder of them, says of itself; with `verify` reads all of it. Throws
/// DataError.
int latents_info(const std::string& path, bool verify);

}  // namespace moh::cli
